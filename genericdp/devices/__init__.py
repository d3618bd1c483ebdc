"""Pure: matching, ids, injection, allocation. Nothing here does I/O or knows of gRPC."""
