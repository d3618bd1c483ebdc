"""The only place that speaks gRPC: registration, server, messages."""
