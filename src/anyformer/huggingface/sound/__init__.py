"""The towers for sound of composites, and the composites that are read with them."""
