"""The floor: what the libraries alone cost, for the same number of resources."""
