"""A host for each example config, what it gives there, and what the peer's documentation says."""
