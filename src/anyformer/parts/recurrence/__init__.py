"""Layers with memory of fixed size: linear attention, delta rules, short convolutions, and their scan."""
