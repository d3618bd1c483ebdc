"""Explain why devices are or are not offered, and which others could be.

Not imported by the daemon.
"""
