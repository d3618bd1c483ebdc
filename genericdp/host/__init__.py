"""The only place that reads the host: device files, sysfs, and the events of their changes."""
