"""The config language: files are read, checked as a whole, and only then built into the model."""
