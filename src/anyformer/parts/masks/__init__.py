"""Masks: the keys that a query may attend to, as values closed under `&` and `|`; their key ranges, pairs and bands."""
