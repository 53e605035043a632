"""`anyformer serve` under requests that come at random, beside what the simulation foretells of it."""
