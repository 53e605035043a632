"""Predicted costs of an architecture beside measurements of the built model."""
