"""Machines written down as umockdev's text, and what loads them and tells what is there."""
