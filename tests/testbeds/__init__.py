"""Machines written down as umockdev's text, and what loads them and shows what is there."""
