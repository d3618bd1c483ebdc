"""Tools for developers: docs/development/development.md describes each."""
