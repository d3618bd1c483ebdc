"""The Kubernetes API: the only place of the daemon that uses ``httpx2``.

Imported only where a resource is served by DRA.
"""
