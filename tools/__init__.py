"""Tools for developers: docs/development/development.md tells of each."""
