"""anyformer."""
