"""The state of the running daemon: metrics, HTTP endpoints, the page."""
