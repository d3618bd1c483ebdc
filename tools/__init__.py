"""Tools for developers: docs/development.md tells of each."""
