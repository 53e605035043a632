"""The one optimiser that runs: it changes every weight by the rule of its group, weights in bf16 too."""
