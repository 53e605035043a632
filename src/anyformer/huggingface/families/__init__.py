"""One file per family or lineage: the reading and writing of its configuration, and the names of its weights."""
