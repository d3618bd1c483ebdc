"""The only place that reads the host: device files, sysfs, and what tells that they changed."""
