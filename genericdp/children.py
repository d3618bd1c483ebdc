"""The daemon's child processes."""
