"""Compares the working tree with an earlier commit, by what a user can see of both."""
