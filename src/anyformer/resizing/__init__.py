"""An architecture at other sizes: at any that fit together, or at the smallest with every mechanism."""
