"""Exported models in the engines that are faster, each held to what this package computes."""
