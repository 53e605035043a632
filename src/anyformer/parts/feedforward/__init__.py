"""Feed-forward networks, position by position."""
