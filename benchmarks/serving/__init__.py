"""Proofs of `anyformer serve`: its speed beside other servers, its endurance, and what no request may do to it."""
