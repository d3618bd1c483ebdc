"""Cases: a machine, a config, and a transcript of commands. See ``tests/README.md``."""
