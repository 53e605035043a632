"""Norms over the features of a vector, or over a batch."""
