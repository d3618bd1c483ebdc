"""What the running daemon says of itself: metrics, HTTP endpoints, the page."""
