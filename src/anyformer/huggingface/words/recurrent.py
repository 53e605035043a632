"""Gated delta nets and Kimi delta attention: their keys, and the names of their weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from anyformer.huggingface.config import Config
from anyformer.huggingface.rules import Table, To
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.activations import activation
from anyformer.huggingface.words.layers import MIXERS
from anyformer.huggingface.words.layers import types as layer_types
from anyformer.huggingface.words.names import convolution
from anyformer.model import Architecture
from anyformer.parts import DeltaAttention, Gate, RMSNorm, ScalarDecay, ShortConvolution

DELTA = "delta_attention"
SIDES: Mapping[str, str] = {"query": "q", "key": "k", "value": "v"}
_FIELDS = {
    "num_key_heads": "heads", "num_value_heads": "value_heads", "key_head_dim": "key_width", "value_head_dim": "value_width",
    "conv_kernel_dim": "convolution.kernel",
}  # fmt: skip
_QWEN = {"num_key_heads": 16, "num_value_heads": 32, "key_head_dim": 128, "value_head_dim": 128, "conv_kernel_dim": 4}


def gated_delta_net(config: Config, *, eps: float, **absent: int) -> DeltaAttention:
    """A gated delta net by the keys `linear_...`; `absent`: defaults of absent keys, where they differ from Qwen's."""
    usual = _QWEN | absent
    given = {name: config(f"linear_{name}", None, f"{DELTA}.{field}") for name, field in _FIELDS.items()}
    keys, values, key_width, value_width, kernel = (usual[n] if value is None else int(value) for n, value in given.items())
    return DeltaAttention(
        heads=keys,
        value_heads=values,
        key_width=key_width,
        value_width=value_width,
        convolution=ShortConvolution(kernel=kernel, activation=activation(config, at=convolution_activation)),
        decay=ScalarDecay(),
        norm=RMSNorm(eps=eps),
        gate=Gate(activation="silu"),
    )


def convolution_activation(target: Target) -> str:
    """The activation of networks; of a model without networks, that of the convolutions."""
    networks = target.get("feedforward.activation") or target.get("experts.activation")
    return str(networks or target(f"{DELTA}.convolution.activation"))


def mixers(config: Config, absent: Callable[[int], str], branches: Mapping[str, str]) -> list[str]:
    """Our word for the mixer of each layer, from `layer_types`; `branches`: name of a branch -> word in `layer_types`."""
    return layer_types(config, absent, known=MIXERS, at=lambda target: target.branches(dict(branches)))


def delta_names(architecture: Architecture, theirs: str) -> Table:
    """Names of delta attention whose projections and short convolutions are stored one by one."""
    kernel = Target(architecture).get(f"{DELTA}.convolution.kernel", 0)
    return {
        **{f"{DELTA}.{ours}": f"{theirs}.{side}_proj" for ours, side in SIDES.items()},
        **{f"{DELTA}.{ours}_convolution": To(f"{theirs}.{side}_conv1d", convolution(kernel)) for ours, side in SIDES.items()},
        f"{DELTA}.beta": f"{theirs}.b_proj",
        f"{DELTA}.decay.A_log": f"{theirs}.A_log",
        f"{DELTA}.decay.dt_bias": f"{theirs}.dt_bias",
        f"{DELTA}.gate.projection": f"{theirs}.g_proj",
        f"{DELTA}.norm": f"{theirs}.o_norm",
        f"{DELTA}.output": f"{theirs}.o_proj",
    }
