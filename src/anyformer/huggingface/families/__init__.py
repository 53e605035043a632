"""One file per family: how its configuration is read and written, and its names."""
