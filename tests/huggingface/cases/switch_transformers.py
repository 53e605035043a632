"""Switch Transformers: capacities that drop tokens; all layers of experts, some, and none."""

from __future__ import annotations

from huggingface.case import Case
from huggingface.cases.t5 import APART, BASE

SWITCH = {key: value for key, value in BASE.items() if key != "feed_forward_proj"} | {
    "num_sparse_encoder_layers": 3, "num_sparse_decoder_layers": 1, "num_experts": 3, "expert_capacity": 3,
    "router_bias": True, "router_jitter_noise": 0.1, "dense_act_fn": "relu",
}  # fmt: skip
OTHER = {key: value for key, value in APART.items() if key != "feed_forward_proj"} | {
    "num_layers": 4, "num_sparse_encoder_layers": 2, "num_decoder_layers": 1, "num_sparse_decoder_layers": 3,
    "decoder_sparse_step": 0, "num_experts": 2, "expert_capacity": 64, "router_bias": False, "dense_act_fn": "gelu_new",
}  # fmt: skip

CASES = [
    Case("switch_transformers", SWITCH, "Seq2SeqLM", "tied"),
    Case("switch_transformers", SWITCH | OTHER, "Seq2SeqLM", "apart"),
]
