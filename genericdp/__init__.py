"""genericdp: any hardware of a Kubernetes node, schedulable from a YAML file."""

__version__ = "0.1.0"
