"""Mixtures of experts: routing, selection, capacity, dispatch, and the balance of their loads."""
