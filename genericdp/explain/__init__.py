"""Explain why devices are or are not offered, and what could be. Not imported by the daemon."""
