"""Positions: tables added to the stream, and rotations of queries and keys."""
