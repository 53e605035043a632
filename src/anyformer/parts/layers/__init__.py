"""Layers made of sublayers: branches, blocks, their wiring and order, stacks, recomputation."""
