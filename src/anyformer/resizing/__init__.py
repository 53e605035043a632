"""The same architecture at other sizes: any that fit together, or the smallest that keep every mechanism."""
