"""Formulas of layers with a state, and NeMo's, which has one function for each family."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.formulas.sizes import ModelSizes

TABLES = {"gpt2": 51_200, "llama": 128_256, "mixtral": 32_000}
"""Tokens that NeMo's functions of GPT-3, Llama 3 and Mixtral count in the head, whatever the model's own."""


def delta_key(m: ModelSizes) -> int:
    """Features of a key of the gated delta rule; transformers' class has 128 where a configuration leaves it out."""
    return int(m.config.get("linear_key_head_dim", 128))


def delta_value(m: ModelSizes) -> int:
    """Features of a value of the gated delta rule."""
    return int(m.config.get("linear_value_head_dim", 128))


def megatron_delta(m: ModelSizes) -> float:
    """Multiply-accumulates per token of a gated delta layer: products, convolution, and four of a state of U x U per head."""
    heads = m.config["linear_num_value_heads"]
    keys, values = m.config["linear_num_key_heads"] * delta_key(m), heads * delta_value(m)
    convolution = m.config.get("linear_conv_kernel_dim", 4) * (2 * keys + values)
    products = m.width * (2 * keys + 2 * values + 2 * heads) + m.width * values
    return float(products + convolution + 4 * heads * delta_value(m) ** 2)


def megatron_hybrid(m: ModelSizes) -> float:
    """Attention, Mamba-2 and feed-forward layers by their number, the inner width of Mamba-2 always 2 D."""
    each = m.config
    inner, states = 2 * m.width, each["n_groups"] * each["ssm_state_size"]
    mamba = 2 * m.width * (2 * inner + 2 * states + each["mamba_num_heads"])
    mamba += 7 * inner * each["ssm_state_size"] + 2 * inner * m.width
    share = m.head_dim * m.heads / m.width
    attention = 4 * m.width * share * (m.width + m.width * m.kv_heads / m.heads + m.length / 2)
    mlp = 4 * m.ffn * m.width * (1.5 if m.gated else 1)
    forward = {"mamba": mamba, "attention": attention, "mlp": mlp}
    return 3 * (sum(forward[kind] for kind in m.kinds) + 2 * m.width * m.vocab) * m.length


def nemo(m: ModelSizes) -> float:
    """The function of the family."""
    return NEMO[m.model_type](m) * m.length


def _nemo_llama(m: ModelSizes) -> float:
    """12 + 12 K / H + 18 k F / D + 6 T / D of D^2 per layer and token, and the head."""
    inner = (m.chosen if m.sparse else 1) * m.ffn
    layer = 12 + 12 * m.kv_heads / m.heads + 18 * inner / m.width + 6 * m.length / m.width
    return m.layers * m.width**2 * layer + 6 * m.width * TABLES[m.model_type]


def _nemo_gpt3(m: ModelSizes) -> float:
    """(24 D^2 + 2 T D) per layer and token, three times, and the head."""
    return 3 * m.layers * (24 * m.width**2 + 2 * m.length * m.width) + 6 * m.width * TABLES["gpt2"]


def _nemo_qwen3(m: ModelSizes) -> float:
    """Heads of their own size, half of every pair, chosen experts without their router."""
    inner = m.chosen * m.expert_ffn if m.sparse else m.ffn
    attention = m.heads * m.head_dim * (m.width * (2 * m.kv_heads / m.heads + 2) + m.length)
    return 6 * (m.layers * (attention + 3 * m.width * inner) + m.width * m.vocab)


def _nemo_deepseek(m: ModelSizes) -> float:
    """Latent attention, half of every pair; dense, shared and chosen experts without their router."""
    each, total = m.config, m.width * m.vocab
    scores, value = each["qk_nope_head_dim"] + each["qk_rope_head_dim"], each["v_head_dim"]
    queries = each["q_lora_rank"] * (m.width + m.heads * scores)
    keys = m.width * (each["qk_rope_head_dim"] + each["kv_lora_rank"])
    keys += each["kv_lora_rank"] * m.heads * (each["qk_nope_head_dim"] + value)
    for sparse in m.of_mixture:
        total += queries + keys + value * m.heads * m.width + m.length / 2 * m.heads * (scores + value)
        total += 3 * m.width * (m.shared_ffn + m.chosen * m.expert_ffn if sparse else m.ffn)
    return 6 * total


def _nemo_hybrid(m: ModelSizes) -> float:
    """Networks as if they had a gate, heads of D / H, and of the scan one product of the states."""
    each = m.config
    inner, states = each["mamba_num_heads"] * each["mamba_head_dim"], each["n_groups"] * each["ssm_state_size"]
    mamba = m.width * (2 * inner + 2 * states + each["mamba_num_heads"]) + inner * each["ssm_state_size"] + inner * m.width
    attention = m.width * (2 * m.width + 2 * m.width * m.kv_heads / m.heads + m.length)
    layers = {"mamba": mamba, "attention": attention, "mlp": 3 * m.width * m.ffn}
    return 6 * (sum(layers[kind] for kind in m.kinds) + m.width * m.vocab)


def _nemo_gpt_oss(m: ModelSizes) -> float:
    """Exact pairs of windows and of whole layers, the first layer whole; chosen experts without their router."""
    total = m.width * m.vocab
    for i in range(m.layers):
        window = m.window if i % 2 else m.length
        pairs = window * (window + 1) / 2 + (m.length - window) * window
        total += 2 * m.width * m.head_dim * (m.heads + m.kv_heads) + 2 * m.heads * m.head_dim * pairs / m.length
        total += 3 * m.width * m.chosen * m.expert_ffn
    return 6 * total


NEMO: Mapping[str, Callable[[ModelSizes], float]] = {
    "gpt2": _nemo_gpt3,
    "llama": _nemo_llama,
    "mixtral": _nemo_llama,
    "qwen3_moe": _nemo_qwen3,
    "deepseek_v3": _nemo_deepseek,
    "nemotron_h": _nemo_hybrid,
    "gpt_oss": _nemo_gpt_oss,
}
"""Model type -> FLOPs of training per token; of GPT-2 the function of GPT-3."""
