"""Malformed input of every kind, drawn from seeds: each case is answered at once, by a result or by an error for people."""
