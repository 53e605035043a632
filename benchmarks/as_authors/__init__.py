"""Forty families beside the tools of their authors and users: transformers, lm-evaluation-harness and TRL."""
