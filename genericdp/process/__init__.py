"""Commands: the only place that starts programs and ends what they leave behind."""
