"""xLSTM: widths of keys and values, biases, capped gates that bite."""

from __future__ import annotations

from huggingface.case import cases

BASE = {"hidden_size": 32, "num_hidden_layers": 2, "num_heads": 4, "norm_eps": 1e-3, "output_logit_soft_cap": 4.0}

CASES = cases(
    "xlstm",
    BASE,
    {"qk_dim_factor": 0.75, "v_dim_factor": 0.5, "ffn_proj_factor": 1.3, "ffn_round_up_to_multiple_of": 8, "use_bias": True,
     "gate_soft_cap": 0.5, "norm_eps": 1e-4},
    unpadded="transformers does not mask padding",
    calls={"use_cache": False},  # its state has heads whose widths are rounded up to 64 features in all
)  # fmt: skip
