"""How many deliberate mistakes in what `anyformer new` writes are noticed by `anyformer check`."""
