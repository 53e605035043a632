"""Masks: the keys that each query may attend to, as values closed under `&` and `|`; their key ranges, pairs and bands."""
