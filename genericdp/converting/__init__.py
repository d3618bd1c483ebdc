"""Configs of other device plugins in our language: text in, text with comments out."""
