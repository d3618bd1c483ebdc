"""Devices offered through Dynamic Resource Allocation: ResourceSlices, and claims on the node."""
