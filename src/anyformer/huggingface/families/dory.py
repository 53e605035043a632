"""Dory (transformers 5.24): layers on the unit sphere (nGPT), of which those in the middle are computed several times."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anyformer.describe import Named
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError, MismatchError
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL, SLIDING
from anyformer.huggingface.rules import Names, Renaming, Table, To, under
from anyformer.huggingface.target import Target
from anyformer.huggingface.vocabulary import POSITIVE
from anyformer.huggingface.words.names import FEEDFORWARD, OUTSIDE, projections
from anyformer.model import Architecture
from anyformer.parts import (
    Block,
    Branch,
    GainedGate,
    Looped,
    QKNorm,
    QueryGain,
    ScaledGain,
    Step,
    SubNorm,
    UnitNorm,
)
from anyformer.parts.sublayer import Sublayer

NORM = UnitNorm(eps=1e-6)
MLP = "mlp"
"""The word for a network where published files list attention and network as two blocks."""


@dataclass(frozen=True)
class DoryLayers:
    """The loop in which the layers stand, and `local` or `full` of every layer that has weights of its own."""

    loop: Looped
    kinds: tuple[str, ...]

    @staticmethod
    def of(target: Target) -> DoryLayers:
        """That of a stack."""
        stack = target.stack
        mixes = ["attention" in stack.variants[name].branches for name in stack.layers]
        if all(mixes):
            raise MismatchError("the layers are not computed again, each time with the stream before them added")
        owners = [owner for owner, mixing in zip(stack.owners, mixes, strict=True) if mixing]
        masks = [stack.variants[stack.layers[i]].branches["attention"].sublayer.masks[0] for i in dict.fromkeys(owners)]
        loop = Looped(mixes.index(False), len(stack.shared_weights), mixes.count(False))
        return DoryLayers(loop, tuple("local" if mask.window else "full" for mask in masks))


def read(config: Config) -> Architecture:
    config.assume(
        vocab_size=131_072, hidden_size=2560, intermediate_size=7168, num_attention_heads=16, num_key_value_heads=4,
        head_dim=256, sliding_window=1024, initializer_range=0.0177,
    )  # fmt: skip
    config.expect(
        "recurrent_kv_cache_mode", "per_loop", why="with `last_loop` what is decoded depends on where its chunks begin"
    )
    layers = _layers(config)
    stored = config("initializer_range", 0.0177, lambda target: _rate(target).stored, kind=POSITIVE)
    rate = config("ngpt_alpha_init", 0.05, lambda target: _rate(target).initial)
    tables = words.tables_by_type(config, {SLIDING: 10_000.0, FULL: 10_000_000.0})
    attention = words.attention(config, qk_norm=QKNorm(norm=NORM), sub_norm=SubNorm(norm=NORM))
    width, network = config("hidden_size"), words.feedforward(config, bias=config("mlp_bias", False))
    network = network.but(gains=ScaledGain(initial=width**0.5), sub_norm=NORM)
    heads = attention.but(
        query_gain=QueryGain(initial=attention.width_of_head(width) ** 0.5, stored=stored),
        gained_gate=GainedGate(gain=ScaledGain(initial=width**0.25, stored=stored)),
    )
    blocks = {}
    for kind, table in (("local", tables[SLIDING]), ("full", tables[FULL])):
        mixer = heads.but(mask=words.mask(config, kind), rotary=words.from_table(table))
        towards = ScaledGain(initial=rate, stored=stored)
        blocks[kind] = Block(steps=(_on_sphere(mixer, towards), _on_sphere(network, towards)))
    made = words.decoder(config, [("layer", blocks["full"])], None, gain=ScaledGain(stored=stored))
    return made.but(decoder=layers.loop.stack([(kind, blocks[kind]) for kind in layers.kinds], NORM))


def _on_sphere(sublayer: Sublayer, towards: ScaledGain) -> Step:
    """From a vector of length 1 a learned share of the way to another."""
    branch = Branch(sublayer=sublayer, norm_after=NORM)
    return Step(norm_before=NORM, branches=Named({sublayer.called: branch}), residual="normed", interpolation=towards)


def _rate(target: Target) -> ScaledGain:
    """How far a step goes, of the first that goes a share of the way."""
    for step in (step for block in target.blocks for step in block.steps):
        if step.interpolation is not None:
            return step.interpolation
    raise MismatchError("no step goes a learned share of the way to its branches")


def _layers(config: Config) -> DoryLayers:
    """The loop by the keys, which count attention and network as a block each where `layer_types` lists networks."""
    listed = config(
        "layer_types", None, lambda target: [w for kind in DoryLayers.of(target).kinds for w in (_TYPES[kind], MLP)]
    )
    each = 2 if listed is not None and MLP in listed else 1
    if each == 2 and (set(listed[1::2]) != {MLP} or MLP in listed[::2] or len(listed) % 2):
        raise config.refused("layer_types", listed, f"attention and {MLP} in turn, where networks are listed at all")
    depth = _count(config, "num_hidden_layers", 36, each, lambda layers: len(layers.kinds))
    first = _count(config, "n_input_layers", 8, each, lambda layers: layers.loop.before)
    last = _count(config, "n_output_layers", 8, each, _behind)
    looped = _count(config, "n_recurrent_layers", None, each, lambda layers: layers.loop.looped)
    looped = depth - first - last if looped is None else looped
    if looped < 1 or first + looped + last != depth:
        raise HuggingFaceError(
            f"{config.where}: of {depth} layers (num_hidden_layers) {first} stand before the loop (n_input_layers), {looped} "
            f"in it (n_recurrent_layers), {last} behind it (n_output_layers): these should add up, with one or more in the loop"
        )
    kinds = [FULL if (i + 1) % 4 == 0 else SLIDING for i in range(depth)] if listed is None else listed[::each]
    known = {theirs: ours for ours, theirs in _TYPES.items()}
    if len(kinds) != depth or not set(kinds) <= known.keys():
        raise config.refused("layer_types", kinds, f"{depth} words, each of them {SLIDING} or {FULL}")
    times = config("n_recurrent_loops", 2, lambda target: DoryLayers.of(target).loop.times)
    return DoryLayers(Looped(first, looped, times), tuple(known[kind] for kind in kinds))


def _blocks(target: Target) -> list[str]:
    return [word for kind in DoryLayers.of(target).kinds for word in (_TYPES[kind], MLP)]


def _behind(layers: DoryLayers) -> int:
    return len(layers.kinds) - layers.loop.before - layers.loop.looped


def _count(config: Config, name: str, default: int | None, each: int, at: Any) -> Any:
    """A number of layers, of which a key counts `each` blocks; where it is absent too, as transformers halves its default."""
    found = config(name, default, lambda target: 2 * at(DoryLayers.of(target)))
    if found is not None and found % each:
        raise config.refused(name, found, f"even, since layer_types counts attention and {MLP} as a block each")
    return None if found is None else found // each


_TYPES = {"local": SLIDING, "full": FULL}
_LAYER: Table = {
    **projections("self_attn.*_proj"),
    "attention.gained_gate.projection": "self_attn.gate_proj",
    "attention.gained_gate.gain": "self_attn.s_gate",
    "attention.query_gain": "self_attn.sqk",
    **FEEDFORWARD,
    "feedforward.gate_gain": "mlp.suv_gate",
    "feedforward.up_gain": "mlp.suv_up",
    "step_0_interpolation": "lambda_1",
    "step_1_interpolation": "lambda_2",
}


def names(architecture: Architecture) -> Names:
    stack = architecture.output_stack
    outside: dict[Any, To | str] = {**OUTSIDE, "head.gain": "lm_head.logit_scale"}
    mixes = [i for i, name in zip(stack.owners, stack.layers, strict=True) if "attention" in stack.variants[name].branches]
    for number, owner in enumerate(dict.fromkeys(mixes)):
        for ours, theirs in under(f"model.layers.{number}.", _LAYER).items():
            outside[f"decoder.layers.{owner}.{ours}"] = theirs
    return Names(outside, {})


def _of_a_pair(found: re.Match[str]) -> str:
    """The name of a layer's part, of block 2 i, its attention, or 2 i + 1, its network."""
    block, part = int(found[1]), found[2]
    rates = {"attn_alpha": "lambda_1", "mlp_alpha": "lambda_2"}
    return f"layers.{block // 2}.{rates.get(part, ('self_attn', 'mlp')[block % 2])}"


_PUBLISHED: Mapping[str, Renaming] = {
    r"layers\.(\d+)\.(mixer|attn_alpha|mlp_alpha)(?=\.|$)": _of_a_pair,
    r"\.self_attn\.g_proj\.": ".self_attn.gate_proj.",
    r"^backbone\.": "model.",
    r"\.embeddings\.": ".embed_tokens.",
}
FAMILIES = (Family("dory", read, names, "", inert=("use_cache",), older_names=_PUBLISHED),)
