"""State-space layers, gated recurrences and the mLSTM against transformers' modules in plain torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import torch
from benchmarks.parts.mixers import HEAD, HEADS, LENGTH, WIDTH, published
from benchmarks.parts.race import Comparison
from benchmarks.parts.sides import Read, Side
from torch import Tensor
from transformers import Mamba2Config, MambaConfig, RecurrentGemmaConfig, RwkvConfig, xLSTMConfig
from transformers.models.mamba.modeling_mamba import MambaMixer
from transformers.models.mamba2.modeling_mamba2 import Mamba2Mixer
from transformers.models.recurrent_gemma.modeling_recurrent_gemma import RecurrentGemmaRecurrentBlock
from transformers.models.rwkv.modeling_rwkv import RwkvSelfAttention
from transformers.models.xlstm.modeling_xlstm import xLSTMLayer

from anyformer.parts import MLSTM, RGLRU, RWKV, GroupedLayerNorm, Mamba, Mamba2, RMSNorm, ShortConvolution
from anyformer.parts.recurrence.mlstm import GATES
from anyformer.parts.sublayer import Sublayer

LONG = 4096
CONVOLUTION = ShortConvolution(activation="silu", bias=True)


def mamba() -> tuple[Sublayer, Side]:
    """Mamba, whose scan in transformers is a loop over tokens."""
    channels, states, rank = 2 * WIDTH, 16, WIDTH // 16
    config = MambaConfig(
        hidden_size=WIDTH, intermediate_size=channels, state_size=states, time_step_rank=rank, num_hidden_layers=1
    )

    def weights(read: Read) -> Mapping[str, Tensor]:
        value, gate = read("in_proj.weight").split(channels)
        step, key, query = read("x_proj.weight").split([rank, states, states])
        return {
            "value.weight": value, "gate.weight": gate, "convolution.weight": read("conv1d.weight")[:, 0],
            "convolution.bias": read("conv1d.bias"), "step_down.weight": step, "key.weight": key, "query.weight": query,
            "step.weight": read("dt_proj.weight"), "dt_bias": read("dt_proj.bias"), "A_log": read("A_log"), "skip": read("D"),
            "output.weight": read("out_proj.weight"),
        }  # fmt: skip

    part = Mamba(channels=channels, state_width=states, step_rank=rank, convolution=CONVOLUTION)
    return part, Side("transformers MambaMixer", MambaMixer(config, 0), weights)


def mamba2() -> tuple[Sublayer, Side]:
    """Mamba-2, in chunks of 256 as published."""
    heads, states = 2 * HEADS, 128
    config = Mamba2Config(hidden_size=WIDTH, num_heads=heads, head_dim=HEAD, state_size=states, n_groups=1, num_hidden_layers=1)
    widths = {"value": heads * HEAD, "key": states, "query": states}

    def each(name: str, x: Tensor) -> dict[str, Tensor]:
        return {name.format(part): y for part, y in zip(widths, x.split([*widths.values()]), strict=True)}

    def weights(read: Read) -> Mapping[str, Tensor]:
        gate, convolved, step = read("in_proj.weight").split([widths["value"], sum(widths.values()), heads])
        return {
            "gate.weight": gate, "step.weight": step, "dt_bias": read("dt_bias"), "A_log": read("A_log"), "skip": read("D"),
            "norm.weight": read("norm.weight"), "output.weight": read("out_proj.weight"), **each("{}.weight", convolved),
            **each("{}_convolution.weight", read("conv1d.weight")[:, 0]), **each("{}_convolution.bias", read("conv1d.bias")),
        }  # fmt: skip

    part = Mamba2(heads=heads, head_width=HEAD, state_width=states, convolution=CONVOLUTION, norm=RMSNorm(eps=1e-5))
    return part, Side("transformers Mamba2Mixer", Mamba2Mixer(config, 0), weights)


def rg_lru() -> tuple[Sublayer, Side]:
    """RecurrentGemma, whose scan in transformers is a loop over tokens."""
    config = RecurrentGemmaConfig(hidden_size=WIDTH, lru_width=WIDTH, num_attention_heads=HEADS)
    theirs = RecurrentGemmaRecurrentBlock(config, 0)
    linear = {"gate": "linear_y", "value": "linear_x", "output": "linear_out"}

    def weights(read: Read) -> Mapping[str, Tensor]:
        of = "rg_lru.{}_gate_{}".format
        gates = {"input_gate": "input", "decay_gate": "recurrent"}
        return {
            **{f"{us}.{what}": read(f"{them}.{what}") for us, them in linear.items() for what in ("weight", "bias")},
            **{f"{us}.weight": read(of(them, "weight")).mT for us, them in gates.items()},
            **{f"{us}.bias": read(of(them, "bias")) for us, them in gates.items()},
            "convolution.weight": read("conv_1d.weight")[:, 0], "convolution.bias": read("conv_1d.bias"),
            "decay": read("rg_lru.recurrent_param"),
        }  # fmt: skip

    def call(x: Tensor) -> Tensor:
        return theirs(x, torch.arange(x.shape[1])[None], None, use_cache=False)[0]  # type: ignore[no-any-return]

    part = RGLRU(channels=WIDTH, heads=HEADS, convolution=ShortConvolution(bias=True), bias=tuple(linear))
    return part, Side("transformers RecurrentGemmaRecurrentBlock", theirs, weights, call)


def rwkv() -> tuple[Sublayer, Side]:
    """RWKV-4, whose average in transformers is a loop over tokens."""
    theirs = RwkvSelfAttention(RwkvConfig(hidden_size=WIDTH))

    def weights(read: Read) -> Mapping[str, Tensor]:
        return {
            **{f"{name}.weight": read(f"{name}.weight") for name in ("key", "value", "receptance", "output")},
            **{f"{name}_mix": read(f"time_mix_{name}") for name in ("key", "value", "receptance")},
            "decay": read("time_decay"), "bonus": read("time_first"),
        }  # fmt: skip

    return RWKV(channels=WIDTH), Side("transformers RwkvSelfAttention", theirs, weights, lambda x: theirs(x)[0])


def mlstm() -> tuple[Sublayer, Side]:
    """xLSTM 7B, in chunks of 64 as published."""
    theirs = xLSTMLayer(xLSTMConfig(hidden_size=WIDTH, num_heads=HEADS, num_hidden_layers=1, mode="train"))
    names = {
        "query": "q", "key": "k", "value": "v", "gate": "ogate_preact", "input_gate": "igate_preact",
        "forget_gate": "fgate_preact", "norm": "multihead_norm", "output": "out_proj",
    }  # fmt: skip

    def weights(read: Read) -> Mapping[str, Tensor]:
        return {
            **{f"{us}.weight": read(f"{them}.weight") for us, them in names.items()},
            **{f"{gate}.bias": read(f"{names[gate]}.bias") for gate in GATES},
        }

    norm = GroupedLayerNorm(groups=HEADS, eps=1e-6, bias=False, cast="before_gain")
    part = MLSTM(heads=HEADS, key_width=HEAD // 2, value_width=HEAD, norm=norm)
    return part, Side("transformers xLSTMLayer", theirs, weights, lambda x: theirs(x)[0])


FAMILIES = {"mamba": mamba, "mamba-2": mamba2, "rg-lru": rg_lru, "rwkv": rwkv, "mlstm": mlstm}
SHORT = {"mamba": 256}
"""Where the gradients of the reference take time that grows with the square of the length."""
COMPARISONS: Mapping[str, Callable[[], Comparison]] = {
    **{name: partial(published, family, 1, SHORT.get(name, LENGTH), steps=True) for name, family in FAMILIES.items()},
    **{f"{name}, long": partial(published, family, 1, LONG, steps=False, train=False) for name, family in FAMILIES.items()},
}
