"""The only place that speaks gRPC: registration, server, messages."""

from genericdp import lean

lean.import_grpc()
