"""The device plugin API of the kubelet: the only place of the daemon that uses gRPC."""
