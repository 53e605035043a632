"""Nemotron-H: every type of layer by its list, with groups, floors of the time step, and biases."""

from __future__ import annotations

from huggingface.case import VOCAB, Case

BASE = {
    "vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 40, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 6, "layers_block_type": ["linear_attention", "mlp", "full_attention", "moe"], "layer_norm_epsilon": 1e-3,
    "max_position_embeddings": 64, "mamba_num_heads": 6, "mamba_head_dim": 5, "ssm_state_size": 7, "n_groups": 2,
    "time_step_min": 0.6, "n_routed_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 12,
    "moe_shared_expert_intermediate_size": 20, "routed_scaling_factor": 1.7,
}  # fmt: skip
GROUPED = {
    "layers_block_type": ["moe", "linear_attention", "full_attention", "linear_attention"], "n_group": 3, "topk_group": 2,
    "norm_topk_prob": False, "mlp_hidden_act": "silu", "mamba_hidden_act": "relu", "mlp_bias": True, "conv_kernel": 3,
    "use_conv_bias": False, "n_groups": 1,
}  # fmt: skip
LEAK = "transformers zeroes padding before the projection, whose bias then enters the convolution"

CASES = [
    Case("nemotron_h", BASE),
    Case("nemotron_h", BASE | GROUPED, name="grouped"),
    Case("nemotron_h", BASE | {"moe_latent_size": 16}, name="latent"),
    Case("nemotron_h", BASE | GROUPED | {"moe_latent_size": 16}, name="latent-biased"),
    Case(
        "nemotron_h",
        BASE | {"use_bias": True, "layers_block_type": ["linear_attention", "mlp", "full_attention"]},
        name="biased",
        unpadded=LEAK,
    ),
]
