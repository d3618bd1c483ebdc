"""The rules of a config that a schema cannot express, by topic; ``check.py`` lists them."""
