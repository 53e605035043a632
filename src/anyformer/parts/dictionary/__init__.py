"""Sparse dictionaries: how few features are active, and the layer that writes vectors as sums of them."""
