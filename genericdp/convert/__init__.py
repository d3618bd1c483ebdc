"""Configs of other device plugins in this config language: text in, commented YAML out."""
