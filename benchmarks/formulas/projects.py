"""Formulas of projects for the FLOPs of a training step, each as its source has it, of one row of `length` tokens.

They are written anew from their definitions at the addresses given, in one set of names; nothing of those sources is copied.
A formula raises `AttributeError` for a model that lacks a size which it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Literal

from benchmarks.formulas import hybrids
from benchmarks.formulas.sizes import ModelSizes

Convention = Literal["every", "masked"]
"""The pairs of query and key that a formula means to count: every one, or those that masks allow."""


@dataclass(frozen=True)
class Formula:
    """One project's formula; `types`: those model types alone to which the project gives it, none for any."""

    project: str
    function: str
    address: str
    convention: Convention
    flops: Callable[[ModelSizes], float]
    types: Collection[str] = ()

    def takes(self, model_type: str) -> bool:
        """Whether the project computes it for such a model."""
        return not self.types or model_type in self.types


def nanogpt(m: ModelSizes) -> float:
    """6 N + 12 L H E T per token, N without learnt positions (Chowdhery et al. 2022, arXiv 2204.02311, appendix B)."""
    return (6 * (m.parameters - m.positions) + 12 * m.layers * m.width * m.length) * m.length


def nanochat(m: ModelSizes) -> float:
    """As nanoGPT, without the table of tokens, which is never tied there."""
    if m.tied or m.sparse:
        raise AttributeError("its models have a head of their own, and no experts")
    return (6 * (m.parameters - m.table) + 12 * m.layers * m.width * m.length) * m.length


def transformers(m: ModelSizes) -> float:
    """6 N per token of the input, N without every weight of an `nn.Embedding`: of tied heads nothing is left."""
    return 6 * (m.parameters - m.table - m.positions) * m.length


def litgpt(m: ModelSizes) -> float:
    """3 (2 N T + 4 L D T^2), with all parameters."""
    return 3 * (2 * m.parameters * m.length + 4 * m.layers * m.width * m.length**2)


def torchtitan(m: ModelSizes) -> float:
    """6 N' + 6 H (E + U) S per layer and token: N' the parameters that a token is multiplied by, S keys, at most a window's."""
    per_token = 6 * m.matrices
    for kind in m.kinds:
        if kind == "linear_attention":
            per_token += 18 * m.config["linear_num_value_heads"] * hybrids.delta_key(m) * hybrids.delta_value(m)
        elif kind in ("full_attention", "sliding_attention", "attention"):
            per_token += 6 * m.heads * sum(_score_and_value(m)) * (m.window if kind == "sliding_attention" else m.length)
    return per_token * m.length


def levanter(m: ModelSizes) -> float:
    """Three times the products of a forward pass with heads of D / H, and 3 T^2 per head for the mask."""
    chosen, shared = (m.chosen, m.config.get("n_shared_experts", 0)) if m.sparse else (1, 0)
    mlp = 2 * (3 if m.gated else 2) * m.width * m.expert_ffn * (chosen + shared)
    mlp += 2 * m.width * m.experts if m.sparse else 0
    projections = 2 * m.width * (m.width + 2 * m.kv_heads * m.width / m.heads) + 2 * m.width**2
    attention = (2 + 2) * m.length * m.width + 3 * m.length * m.heads
    return 3 * (m.layers * (mlp + projections + attention) + 2 * m.width * m.vocab) * m.length


def llama_factory(m: ModelSizes) -> float:
    """Three times gate, up and down, projections with heads of D / H, every pair, and the table once, or twice where untied."""
    ffn, kv_heads = m.config["intermediate_size"], m.config["num_key_value_heads"]
    mlp, projections = 6 * m.width * ffn, 4 * m.width**2 * (1 + kv_heads / m.heads)
    tables = m.width * m.vocab * (1 if m.tied else 2)
    return 3 * (m.layers * (mlp + projections + 4 * m.width * m.length) + tables) * m.length


def verl(m: ModelSizes) -> float:
    """6 N' per token with a table counted beside the head, and half of every pair; of a window, half of T W."""
    projections = latent_parameters(m) if m.latent else m.width * m.head_dim * 2 * (m.heads + m.kv_heads)
    parameters = 2 * m.vocab * m.width
    for sparse in m.of_mixture:
        networks = (m.chosen * m.expert_ffn + m.shared_ffn) * 3 * m.width if sparse else 3 * m.width * m.ffn
        parameters += projections + networks + (m.width * m.experts if sparse else 0)
    windows = m.model_type in ("gemma3_text", "gpt_oss")
    keys = sum(m.window if windows and kind == "sliding_attention" else m.length for kind in m.kinds)
    return (6 * parameters + 3 * m.heads * sum(_score_and_value(m)) * keys) * m.length


def megatron(m: ModelSizes) -> float:
    """6 per parameter of every product but the router's, and half of every pair, whatever the window."""
    if m.model_type == "nemotron_h":
        return hybrids.megatron_hybrid(m)
    if m.model_type == "t5":  # `num_layers` is that of the encoder there
        m = replace(m, config={**m.config, "layer_types": ["full_attention"] * m.layers})
    gate = m.heads * m.head_dim if m.model_type == "qwen3_next" else 0
    if m.latent:  # the norms of both latent vectors count as one row of each matrix
        attention = latent_parameters(m) + m.config["q_lora_rank"] + m.config["kv_lora_rank"]
    else:
        attention = m.width * (m.head_dim * 2 * (m.heads + m.kv_heads) + gate)
    attention += m.length / 2 * m.heads * sum(_score_and_value(m))
    per_token = m.width * m.vocab
    for kind, sparse in zip(m.kinds, m.of_mixture, strict=True):
        per_token += hybrids.megatron_delta(m) if kind == "linear_attention" else attention
        inner = m.chosen * m.expert_ffn + m.shared_ffn if sparse else m.ffn
        per_token += m.width * inner * (3 if m.gated else 2)
    return 6 * per_token * m.length


def maxtext(m: ModelSizes) -> float:
    """Three times every product of a forward pass, the router's among them; half of every pair, T W - W^2 / 2 of a window."""
    windows = m.model_type in ("gemma3_text", "gpt_oss")
    projections = latent_parameters(m) if m.latent else m.width * m.head_dim * 2 * (m.heads + m.kv_heads)
    total = 2 * m.width * m.vocab * m.length
    for kind, sparse in zip(m.kinds, m.of_mixture, strict=True):
        inner = m.chosen * m.expert_ffn + m.shared_ffn if sparse else m.ffn
        network = m.width * inner * (3 if m.gated else 2) + (m.width * m.experts if sparse else 0)
        pairs = m.length**2 / 2
        if windows and kind == "sliding_attention":
            pairs = m.length * m.window - m.window**2 / 2
        if kind == "linear_attention":
            total += 2 * (hybrids.megatron_delta(m) + network) * m.length
        else:
            total += 2 * (projections + network) * m.length + 2 * m.heads * sum(_score_and_value(m)) * pairs
    return 3 * total


def latent_parameters(m: ModelSizes) -> int:
    """Weights of multi-head latent attention (DeepSeek-AI 2024, arXiv 2405.04434, section 2.1)."""
    each = m.config
    inner, value = each["qk_nope_head_dim"], each["v_head_dim"]
    queries = each["q_lora_rank"] * (m.width + m.heads * (inner + each["qk_rope_head_dim"]))
    keys = m.width * (each["kv_lora_rank"] + each["qk_rope_head_dim"]) + each["kv_lora_rank"] * m.heads * (inner + value)
    return int(queries + keys + m.heads * value * m.width)


def _score_and_value(m: ModelSizes) -> tuple[int, int]:
    """Features of a head in scores and in values."""
    if m.latent:
        return m.config["qk_nope_head_dim"] + m.config["qk_rope_head_dim"], m.config["v_head_dim"]
    return m.head_dim, m.head_dim


GITHUB = "https://github.com"
DECODERS = (
    "gpt2",
    "llama",
    "mistral",
    "mixtral",
    "gemma3_text",
    "qwen3_moe",
    "deepseek_v3",
    "gpt_oss",
    "qwen3_next",
    "nemotron_h",
)
FORMULAS = (
    Formula(
        "nanoGPT", "GPT.estimate_mfu",
        f"{GITHUB}/karpathy/nanoGPT/blob/0011cd4442915c844e9b8f5c5117f25f5a7096c5/model.py", "every", nanogpt,
        DECODERS,
    ),
    Formula(
        "nanochat", "GPT.estimate_flops",
        f"{GITHUB}/karpathy/nanochat/blob/025c43273999f1efdc2ba96fec5c19b500428e10/nanochat/gpt.py", "every", nanochat,
        ("llama", "mistral"),
    ),
    Formula(
        "transformers", "Trainer.floating_point_ops",
        f"{GITHUB}/huggingface/transformers/blob/v5.23.0/src/transformers/trainer.py", "every", transformers,
    ),
    Formula(
        "litgpt", "estimate_flops",
        f"{GITHUB}/Lightning-AI/litgpt/blob/d49df2089a7b8c6c84d562b1e6293a6c16530392/litgpt/utils.py", "every", litgpt,
        ("llama", "mistral", "mixtral", "gemma3_text", "qwen3_moe"),
    ),
    Formula(
        "torchtitan", "quadratic_attention_flops_per_token",
        f"{GITHUB}/pytorch/torchtitan/blob/01c01c88fe7a58a250e7adf6ddc3b7a3857597f4/torchtitan/models/utils.py", "every",
        torchtitan, ("llama", "deepseek_v3", "qwen3_moe", "qwen3_next", "gpt_oss"),
    ),
    Formula(
        "Levanter", "lm_flops_per_token",
        f"{GITHUB}/stanford-crfm/levanter/blob/03c45fecdf5b15f738017693efbe8bca5ec667fe/src/levanter/utils/flop_utils.py",
        "every", levanter, ("gpt2", "llama", "mistral", "mixtral", "gemma3_text", "qwen3_moe"),
    ),
    Formula(
        "LLaMA-Factory", "compute_model_flops",
        f"{GITHUB}/hiyouga/LLaMA-Factory/blob/1fee69f874195d227f9f478198a9e890bf5962ca/scripts/stat_utils/cal_mfu.py",
        "every", llama_factory, DECODERS,
    ),
    Formula(
        "verl", "FlopsCounter.estimate_flops",
        f"{GITHUB}/verl-project/verl/blob/34ae9879b6d7d6088b927d01306740929205cc29/verl/utils/flops_counter.py", "masked",
        verl, ("llama", "mistral", "qwen3_moe", "deepseek_v3", "gemma3_text", "gpt_oss"),
    ),
    Formula(
        "Megatron-LM", "num_floating_point_operations",
        f"{GITHUB}/NVIDIA/Megatron-LM/blob/001b00c2734d8f0fad096fe48a382fedf755d321/megatron/training/training.py", "masked",
        megatron,
    ),
    Formula(
        "NeMo", "flops_formulas",
        f"{GITHUB}/NVIDIA-NeMo/Speech/blob/28b963135df8fadda4440eabbdb8a545e43d415e/nemo/utils/flops_formulas.py", "masked",
        hybrids.nemo, tuple(hybrids.NEMO),
    ),
    Formula(
        "MaxText", "calculate_tflops_training_per_device",
        f"{GITHUB}/AI-Hypercomputer/maxtext/blob/00902f36e65d08b95a83039d691c21dc0793e1e6/src/maxtext/utils/maxtext_utils.py",
        "masked", maxtext,
        ("gpt2", "llama", "mistral", "mixtral", "gemma3_text", "qwen3_moe", "deepseek_v3", "gpt_oss", "qwen3_next"),
    ),
)  # fmt: skip
