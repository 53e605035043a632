"""OLMo hybrid: pre-norm gated delta nets with betas up to 2, and OLMo 3's attention with norms after in every few layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL
from anyformer.huggingface.rules import Names, Shapes, Table, To
from anyformer.huggingface.target import Target
from anyformer.huggingface.words import DELTA
from anyformer.huggingface.words.names import ATTENTION, FEEDFORWARD, QK_NORM, decoder_names
from anyformer.model import Architecture
from anyformer.parts import DeltaAttention, QKNorm, Rotary, output_norm, pre_norm

if TYPE_CHECKING:
    from torch import Tensor

_TABLE: Table = {
    "attention.norm_after": "feedforward_layer_norm",
    "feedforward.norm_after": "post_feedforward_layernorm",
    f"{DELTA}.norm_before": "attention_layer_norm",
    "feedforward.norm_before": "feedforward_layer_norm",
    f"{DELTA}.decay.projection": "linear_attn.a_proj",
}


def read(config: Config) -> Architecture:
    config.assume(vocab_size=100_352, hidden_size=3840, num_hidden_layers=32, num_attention_heads=30)
    norm, network = words.rms_norm(config, cast="after_gain"), words.feedforward(config, width=11008)
    full = words.attention(config, qk_norm=QKNorm(norm=norm, over="projection"), rotary=_rotary(config))
    full = full.but(kv_heads=full.groups)
    blocks = {"linear": pre_norm(norm, _delta(config), network), "full": output_norm(norm, full, network)}
    depth = config("num_hidden_layers")
    last = depth - 1 if depth < 4 else 3
    branches = {DELTA: "linear_attention", "attention": FULL}
    mixers = words.mixers(config, lambda i: FULL if i % 4 == 3 or i == last else "linear_attention", branches)
    return words.decoder(config, words.layered(lambda mixer: blocks[mixer], mixers), norm)


def _delta(config: Config) -> DeltaAttention:
    heads = config("num_attention_heads")
    keys = config("linear_num_key_heads", None, f"{DELTA}.heads") or heads
    width = config("linear_key_head_dim", None, f"{DELTA}.key_width") or int(0.75 * config("hidden_size") / keys)
    usual = {"num_key_heads": heads, "num_value_heads": heads, "key_head_dim": width, "value_head_dim": 2 * width}
    delta = words.gated_delta_net(config, eps=1e-5, **usual)
    doubles = config("linear_allow_neg_eigval", True, lambda target: target(f"{DELTA}.beta_scale") == 2.0)
    return delta.but(beta_scale=2.0 if doubles else 1.0)


def _rotary(config: Config) -> Rotary | None:
    """Rotary positions; None where the table's theta is null, as in the published files."""
    table = config("rope_parameters", None, _table)
    if table is not None and table.get("rope_theta") is None:
        return None
    return words.rotary(config, rotate_in="fp32")


def _table(target: Target) -> dict[str, Any]:
    rotates = target("attention.rotary") is not None
    return words.rope_table(target) if rotates else {"rope_type": "default", "rope_theta": None}


@dataclass(frozen=True)
class Consecutive:
    """Convolutions one after the other, (W, 1, n), wherever the files cut them: transformers 5 writes three of equal W."""

    kernel: int

    def read(self, stored: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        import torch

        joined = torch.cat([each.reshape(-1, self.kernel) for each in stored])
        return list(torch.split(joined, [channels for channels, _ in shapes]))

    def write(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        return [each.reshape(-1, 1, self.kernel) for each in parameters]


def names(architecture: Architecture) -> Names:
    delta = words.delta_names(architecture, "linear_attn")
    separate = {ours: theirs for ours, theirs in delta.items() if not str(ours).endswith("_convolution")}
    kernel = Target(architecture).get(f"{DELTA}.convolution.kernel", 1)
    convolutions = tuple(f"{DELTA}.{side}_convolution" for side in ("query", "key", "value"))
    joined: Table = {convolutions: To("linear_attn.{x}_conv1d", Consecutive(kernel), ("q", "k", "v"))}
    return decoder_names(ATTENTION, QK_NORM, FEEDFORWARD, separate, joined, _TABLE)


FAMILIES = (
    Family(
        "olmo_hybrid",
        read,
        names,
        "OlmoHybridForCausalLM",
        older_names={
            r"\.input_layernorm\.": ".attention_layer_norm.",
            r"\.post_attention_layernorm\.": ".feedforward_layer_norm.",
        },
        inert=("linear_a_log_max", "linear_a_log_min", "linear_dt_init_floor", "linear_dt_max", "linear_dt_min"),
    ),
)
