"""Masks: which keys a query may look at, as values closed under `&` and `|`; their key ranges, pairs and bands."""
