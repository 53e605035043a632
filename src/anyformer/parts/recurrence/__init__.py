"""Layers whose memory does not grow: linear attention, delta rules, short convolutions, and the scan beneath them."""
