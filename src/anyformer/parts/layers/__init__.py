"""How sublayers become a model's depth: branches, blocks, their wiring and order, stacks, recomputation."""
