"""Commands: the only place that starts programs and ends their leftover processes."""
