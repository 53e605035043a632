"""Recurrences whose states decay by themselves, each a whole mixer against transformers' module in pure torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from benchmarks.parts.mixers import HEAD, WIDTH
from benchmarks.parts.race import run
from benchmarks.parts.sides import Alone, Read, Side, features, ours, sides
from torch import Tensor
from transformers import Mamba2Config, MambaConfig, RecurrentGemmaConfig, RwkvConfig, xLSTMConfig
from transformers.models.mamba.modeling_mamba import MambaMixer
from transformers.models.mamba2.modeling_mamba2 import Mamba2Mixer
from transformers.models.recurrent_gemma.modeling_recurrent_gemma import RecurrentGemmaRecurrentBlock
from transformers.models.rwkv.modeling_rwkv import RwkvSelfAttention
from transformers.models.xlstm.modeling_xlstm import xLSTMLayer

from anyformer.parts import MLSTM, RGLRU, RWKV, GroupedLayerNorm, GroupedRMSNorm, Mamba, Mamba2, ShortConvolution
from anyformer.parts.sublayer import Sublayer

LENGTH = 512
"""At 1,024 a step of transformers' Mamba takes more than a minute."""
CHANNELS, STATE = 2 * WIDTH, 16
HEADS = CHANNELS // HEAD
FILTER = ShortConvolution(kernel=4, activation="silu", bias=True)


def mamba2() -> tuple[Sublayer, Side]:
    """Mamba-2: gate, values, keys, queries and steps in one projection, the middle three in one convolution."""
    config = Mamba2Config(
        hidden_size=WIDTH, num_heads=HEADS, head_dim=HEAD, state_size=HEAD, n_groups=1, expand=2, num_hidden_layers=1
    )
    sizes = {"value": CHANNELS, "key": HEAD, "query": HEAD}

    def weights(read: Read) -> Mapping[str, Tensor]:
        gate, value, key, query, step = read("in_proj.weight").split([CHANNELS, CHANNELS, HEAD, HEAD, HEADS])
        filters, biases = (read(f"conv1d.{leaf}").split(list(sizes.values())) for leaf in ("weight", "bias"))
        return {
            "gate.weight": gate, "value.weight": value, "key.weight": key, "query.weight": query, "step.weight": step,
            **{f"{name}_convolution.weight": each[:, 0] for name, each in zip(sizes, filters, strict=True)},
            **{f"{name}_convolution.bias": each for name, each in zip(sizes, biases, strict=True)},
            "A_log": read("A_log"), "dt_bias": read("dt_bias"), "skip": read("D"), "norm.weight": read("norm.weight"),
            "output.weight": read("out_proj.weight"),
        }  # fmt: skip

    part = Mamba2(
        heads=HEADS, head_width=HEAD, state_width=HEAD, groups=1, convolution=FILTER, norm=GroupedRMSNorm(groups=1, eps=1e-5)
    )
    return part, Side("transformers Mamba2Mixer", Mamba2Mixer(config, 0), weights)


def mamba() -> tuple[Sublayer, Side]:
    """Mamba."""
    rank = WIDTH // 16
    config = MambaConfig(hidden_size=WIDTH, state_size=STATE, expand=2, time_step_rank=rank, num_hidden_layers=1)

    def weights(read: Read) -> Mapping[str, Tensor]:
        value, gate = read("in_proj.weight").split(CHANNELS)
        step, key, query = read("x_proj.weight").split([rank, STATE, STATE])
        return {
            "value.weight": value, "gate.weight": gate, "step_down.weight": step, "key.weight": key, "query.weight": query,
            "convolution.weight": read("conv1d.weight")[:, 0], "convolution.bias": read("conv1d.bias"),
            "step.weight": read("dt_proj.weight"), "dt_bias": read("dt_proj.bias"), "A_log": read("A_log"), "skip": read("D"),
            "output.weight": read("out_proj.weight"),
        }  # fmt: skip

    part = Mamba(channels=CHANNELS, state_width=STATE, step_rank=rank, convolution=FILTER)
    return part, Side("transformers MambaMixer", MambaMixer(config, 0), weights)


def rg_lru() -> tuple[Sublayer, Side]:
    """RecurrentGemma."""
    heads = WIDTH // HEAD
    config = RecurrentGemmaConfig(
        hidden_size=WIDTH, lru_width=WIDTH, num_attention_heads=heads, conv1d_width=4, num_hidden_layers=1
    )
    theirs, positions = RecurrentGemmaRecurrentBlock(config, 0), torch.arange(LENGTH)[None]
    sides_of = {"gate": "linear_y", "value": "linear_x", "output": "linear_out"}
    gates = {"input_gate": "input_gate", "decay_gate": "recurrent_gate"}

    def weights(read: Read) -> Mapping[str, Tensor]:
        return {
            **{f"{us}.{leaf}": read(f"{them}.{leaf}") for us, them in sides_of.items() for leaf in ("weight", "bias")},
            **{f"{us}.weight": read(f"rg_lru.{them}_weight").mT for us, them in gates.items()},
            **{f"{us}.bias": read(f"rg_lru.{them}_bias") for us, them in gates.items()},
            "convolution.weight": read("conv_1d.weight")[:, 0], "convolution.bias": read("conv_1d.bias"),
            "decay": read("rg_lru.recurrent_param"),
        }  # fmt: skip

    part = RGLRU(
        channels=WIDTH, heads=heads, convolution=ShortConvolution(kernel=4, bias=True), bias=("gate", "value", "output")
    )

    def call(x: Tensor) -> Tensor:
        y, _ = theirs(x, positions, None, use_cache=False)
        return y  # type: ignore[no-any-return]

    return part, Side("transformers RecurrentGemmaRecurrentBlock", theirs, weights, call)


def rwkv() -> tuple[Sublayer, Side]:
    """RWKV-4's time mixing."""
    theirs = RwkvSelfAttention(RwkvConfig(hidden_size=WIDTH, num_hidden_layers=1))

    def weights(read: Read) -> Mapping[str, Tensor]:
        return {
            **{f"{name}.weight": read(f"{name}.weight") for name in ("key", "value", "receptance", "output")},
            **{f"{name}_mix": read(f"time_mix_{name}") for name in ("key", "value", "receptance")},
            "decay": read("time_decay"), "bonus": read("time_first"),
        }  # fmt: skip

    return RWKV(channels=WIDTH), Side("transformers RwkvSelfAttention", theirs, weights, lambda x: theirs(x)[0])


def mlstm() -> tuple[Sublayer, Side]:
    """xLSTM 7B, its chunked form."""
    heads, keys = WIDTH // HEAD, HEAD // 2
    config = xLSTMConfig(
        hidden_size=WIDTH, num_heads=heads, num_blocks=1, qk_dim_factor=0.5, chunkwise_kernel="chunkwise--native_autograd",
        mode="train",
    )  # fmt: skip
    theirs = xLSTMLayer(config)
    names = {
        "query": "q", "key": "k", "value": "v", "gate": "ogate_preact", "norm": "multihead_norm", "output": "out_proj",
        "input_gate": "igate_preact", "forget_gate": "fgate_preact",
    }  # fmt: skip

    def weights(read: Read) -> Mapping[str, Tensor]:
        biases = {f"{us}.bias": read(f"{them}.bias") for us, them in names.items() if us.endswith("_gate")}
        return {f"{us}.weight": read(f"{them}.weight") for us, them in names.items()} | biases

    part = MLSTM(
        heads=heads,
        key_width=keys,
        value_width=HEAD,
        norm=GroupedLayerNorm(groups=heads, eps=1e-6, bias=False, cast="before_gain"),
    )
    return part, Side("transformers xLSTMLayer", theirs, weights, lambda x: theirs(x)[0])


MIXERS: Mapping[str, Callable[[], tuple[Sublayer, Side]]] = {
    "Mamba-2": mamba2, "Mamba": mamba, "mLSTM": mlstm, "RG-LRU": rg_lru, "RWKV-4": rwkv,
}  # fmt: skip


def scans() -> dict[str, Any]:
    """Forward and backward of every mixer; a peer that gives other results ends it."""
    shape, found = f"1 x {LENGTH} x {WIDTH}", {}
    for name, mixer in MIXERS.items():
        part, peer = mixer()
        row = run(sides(shape, ours(Alone(part, WIDTH)), [peer], features(1, LENGTH, WIDTH)))
        if row["refused"]:
            raise SystemExit(f"{name}: {row['refused']}")
        found[name] = row
    return {"shape": f"{shape}, fp32, forward and backward", "mixers": found}
