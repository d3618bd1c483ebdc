"""A machine as a file. The daemon imports none of it."""
