"""Optimisers as they run: the rule of each, and the one optimiser that changes every weight by the rule of its group."""
