"""CDI: what containers get of a device, written down for container runtimes."""
