"""Attention over keys, or blocks of keys, that an indexer chooses beside that over all: from which length on it is faster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from benchmarks.parts.race import TOLERANCE, difference, race, ratio
from benchmarks.parts.sides import Alone, features
from torch import nn

from anyformer.model import decoder_only
from anyformer.model.transformer import build
from anyformer.parts import (
    Attention,
    BlockIndexer,
    Embedding,
    Indexer,
    LatentAttention,
    LayerNorm,
    RMSNorm,
    Rotary,
    Score,
    pre_norm,
)
from anyformer.parts.sublayer import Sublayer
from anyformer.plan import Plan

WIDTH, HEADS, KEEP = 512, 16, 256
LENGTHS, CACHES = (512, 1024, 2048, 4096, 8192), (1024, 2048, 4096, 8192, 16_384, 65_536)
DENSE = LatentAttention(
    heads=HEADS, kv_rank=128, q_rank=192, nope_width=32, rope_width=16, value_width=32, norm=RMSNorm(),
    rotary=Rotary(pairing="adjacent"),
)  # fmt: skip
INDEXER = Indexer(keep=KEEP, heads=4, head_width=32, norm=LayerNorm(), rotary=Rotary())
CHOSEN = DENSE.but(choice=INDEXER)
BLOCK, GROUPS = 64, 4
GROUPED = Attention(heads=HEADS, kv_heads=GROUPS, head_width=64, place=Rotary())
BLOCKS = Attention(
    heads=HEADS,
    kv_heads=GROUPS,
    head_width=64,
    place=Rotary(),
    score=Score(choice=BlockIndexer(block=BLOCK, keep=KEEP // BLOCK, head_width=32, norm=RMSNorm(), rotary=Rotary())),
)


def chosen_keys() -> dict[str, Any]:
    """Latent attention: times as fast as to all keys, all positions at once and one more token; what the gate found."""
    shape = f"1 x T x {WIDTH}, {HEADS} heads, latent 128, {KEEP} keys by 4 index heads of 32, fp32"
    return {"shape": shape, **measured(DENSE, CHOSEN)}


def chosen_blocks() -> dict[str, Any]:
    """Grouped-query attention over blocks, the same."""
    shape = f"1 x T x {WIDTH}, {HEADS} heads of 64, {GROUPS} of keys, for each {KEEP // BLOCK} blocks of {BLOCK} keys, fp32"
    return {"shape": shape, **measured(GROUPED, BLOCKS)}


def measured(dense: Sublayer, sparse: Sublayer) -> dict[str, Any]:
    """The ratios of both, by length, behind their gate."""
    found: dict[str, Any] = {"differs from the mask written out by": gate(sparse), "forward": {}, "decoding": {}}
    with torch.inference_mode():
        for length in LENGTHS:
            works = alone(length, dense, sparse)
            found["forward"][length] = ratio(race(works), "all keys", "chosen keys")
        for past in CACHES:
            found["decoding"][past] = ratio(race(stepping(past, dense, sparse)), "all keys", "chosen keys")
    return found


def filled(module: nn.Module) -> nn.Module:
    """The module with equal weights for equal names and shapes, whatever else it has."""
    made = torch.Generator()
    for name, weight in module.named_parameters():
        made.manual_seed(len(name))
        weight.data.normal_(std=weight.shape[-1] ** -0.5, generator=made)
    return module


def gate(sparse: Sublayer) -> float:
    """The difference between gathered keys and the mask of the same choice; refuses to time what differs."""
    x = features(1, 2 * KEEP + 3, WIDTH)
    with torch.inference_mode():
        one, other = ({"output": filled(Alone(sparse, WIDTH, plan))(x)} for plan in (Plan(), Plan(attention="plain")))
    differs = difference(one, other)
    if differs > TOLERANCE:
        raise SystemExit(f"gathered keys give other results than their mask, by {differs:.1e}: not timed")
    return float(f"{differs:.1e}")


def alone(length: int, dense: Sublayer, sparse: Sublayer) -> Mapping[str, Callable[[], object]]:
    """The layer over all positions of a row."""
    x = features(1, length, WIDTH)
    layers = {"all keys": filled(Alone(dense, WIDTH)), "chosen keys": filled(Alone(sparse, WIDTH))}
    works = {name: (lambda layer=layer: layer(x)) for name, layer in layers.items()}
    for work in works.values():
        work()
    return works


def stepping(past: int, dense: Sublayer, sparse: Sublayer) -> Mapping[str, Callable[[], object]]:
    """A layer's step of one token after `past` others; the state is as after reading them, of any numbers."""
    works: dict[str, Callable[[], object]] = {}
    for name, part in (("all keys", dense), ("chosen keys", sparse)):
        model = build(decoder_only(Embedding(vocab=8), WIDTH, [pre_norm(RMSNorm(), part)])).eval()
        filled(model)
        state = model.state(1, past + 1)
        for each in state.layers:
            for own in each.values():
                for held in vars(own).values():
                    held.normal_(generator=torch.Generator().manual_seed(0))
        state.slots.positions[:, :past] = torch.arange(past)
        state.slots.used = past
        token = torch.zeros(1, 1, dtype=torch.int64)

        def step(model: Any = model, state: Any = state, token: torch.Tensor = token) -> None:
            model.features(token, state=state)
            state.trim(1)

        step()
        works[name] = step
    return works
