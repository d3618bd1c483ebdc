"""Keeps the config in force the one on disk, as long as that is good."""
