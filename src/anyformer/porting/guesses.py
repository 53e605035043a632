"""What neither names nor shapes tell: the ways in which known families differ there, as alternatives to be tried."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from anyformer.describe import get
from anyformer.huggingface.words.activations import ACTIVATIONS
from anyformer.model import Architecture
from anyformer.parts import (
    Causal,
    Embedding,
    Experts,
    FeedForward,
    LayerNorm,
    RMSNorm,
    Window,
)
from anyformer.porting.changes import ArchitectureChange, HeadsNormed, Normed, Put, Wired
from anyformer.porting.explaining import Fit
from anyformer.porting.hint import Hint
from anyformer.porting.keys import numbers
from anyformer.porting.layer_kinds import layers
from anyformer.porting.looking import blocks_in, heads_in, norms_of_layer
from anyformer.porting.networks import experts, networks
from anyformer.porting.norm_places import assignments, is_norm, wirings_of
from anyformer.porting.positions import positions
from anyformer.porting.projections import grouped
from anyformer.porting.slots import gate_guesses, norm_guesses
from anyformer.porting.temperatures import temperatures

NormKind = Literal["rms_norm", "layer_norm"]
_FRACTIONS = (1.0, 0.5, 0.25)
_LAYOUTS: tuple[Literal["halves", "interleaved"], ...] = ("halves", "interleaved")
_SPACINGS: tuple[Literal["paper", "inclusive"], ...] = ("paper", "inclusive")
_EPSILONS = (1e-5, 1e-6, 1e-8, 1e-12)


def alternatives(fit: Fit, table: Mapping[str, Any], where: str = "", side: str = "") -> Iterator[Hint]:
    """Every alternative to what is guessed, the ones that differ most often among known families first.

    `where`, `side`: the first place that departs, of which those that cannot change it are left out: what goes into the last
    projection of attention follows from positions, scores and masks, what goes into that of a network from its activation.
    """
    end = where.rpartition(".")[2]
    mixed = side == "input" and ".attention" in where and end == "output"
    acted = side == "input" and end == "down"
    normed = side == "output" and "norm" in end
    if not acted and not normed:
        yield from positions(fit, table)
    if not mixed and not acted:
        yield from _norms(fit, table)
    if not acted:
        yield from norm_guesses(fit, table)
    if not mixed and not acted and not normed:
        yield from _scales(fit, table)
        yield from _ends(fit)
        yield from _before_head(fit)
    if not acted and not normed:
        yield from _heads(fit, table)
        yield from gate_guesses(fit)
    if not mixed and not normed:
        yield from networks(fit)
    if not acted and not normed:
        yield from _masks(fit, table)
        yield from layers(fit, table)
        yield from temperatures(fit, table)
    if not acted and not normed:
        yield from _wiring(fit)  # fused projections have no probe of their own, so a norm before them shows here
    if not mixed and not acted and not normed:
        yield from experts(fit, table)


def _one(why: str, *changes: ArchitectureChange) -> Hint:
    return Hint(why, changes)


def _norms(fit: Fit, table: Mapping[str, Any]) -> Iterator[Hint]:
    norm = next(norms_of_layer(fit.architecture), None)
    if not isinstance(norm, RMSNorm | LayerNorm):
        return
    kinds: tuple[NormKind, ...] = ("layer_norm",) if norm.bias else ("rms_norm", "layer_norm")
    if norm.gain == "none":
        for eps in dict.fromkeys((norm.eps, *_EPSILONS)):
            yield _one(f"norms: layer_norm without a gain, epsilon {eps}", Normed("layer_norm", "none", eps=eps))
    for kind in kinds:
        for gain in ("weight", "one_plus_weight") if norm.gain != "none" else ("none",):
            if (kind, gain) != (norm.kind, norm.gain):
                yield _one(f"norms: {kind}, gain {gain}", Normed(kind, gain, norm.bias))
    given = [value for name, value in sorted(table.items()) if name.endswith(("eps", "epsilon")) and isinstance(value, float)]
    for eps in dict.fromkeys((*given, *_EPSILONS)):
        if eps != norm.eps:
            yield _one(f"epsilon of norms: {eps}", Normed(norm.kind, norm.gain, norm.bias, eps=eps))


def _ends(fit: Fit) -> Iterator[Hint]:
    """A norm of the whole stream before the layers or behind them, whose name did not say which."""
    assert fit.architecture is not None
    for one, other in (("input_norm", "final_norm"), ("final_norm", "input_norm")):
        changes: list[ArchitectureChange] = []
        lines = dict[str, str]()
        for name, stack in fit.architecture.stacks.items():
            line = next((line for line in fit.lines if line.source == (f"{name}.{one}",)), None)
            if get(stack, other) is None and line is not None and line.module.name in fit.matched:
                changes += [Put(f"{name}.{other}", get(stack, one)), Put(f"{name}.{one}", None)]
                lines[f"{name}.{other}"] = fit.matched[line.module.name]
        if changes:
            yield Hint(f"the norm of the stream: {other.replace('_', ' ')}", tuple(changes), lines)


def _scales(fit: Fit, table: Mapping[str, Any]) -> Iterator[Hint]:
    architecture = fit.architecture
    assert architecture is not None
    said = numbers(table, "scal", "multipl", "factor", "cap", "alpha", "beta")
    for scale in ("sqrt_width", 1.0, *said):
        if isinstance(architecture.embedding, Embedding) and architecture.embedding.scale != scale:
            yield _one(f"factor of embeddings: {scale}", Put("embedding.scale", scale))
    head = architecture.head
    if head is not None and head.outputs is None:
        for scale in (1.0, "inverse_sqrt_width", *said, *(1 / number for number in said)):
            if head.scale != scale:
                yield _one(f"factor of logits: {scale}", Put("head.scale", scale))
        for cap in (None, *said):
            if head.softcap != cap:
                yield _one(f"bound of logits: {cap}", Put("head.softcap", cap))
    for number in (1.0, *said):
        yield _one(
            f"factor of branches: {number}",
            Put("attention.multiplier", number),
            Put("feedforward.multiplier", number),
            Put("experts.multiplier", number),
        )


def _before_head(fit: Fit) -> Iterator[Hint]:
    """The activation of the dense layer before the head."""
    assert fit.architecture is not None
    head = fit.architecture.head
    if head is not None and head.transform is not None:
        for activation in (None, *dict.fromkeys(ACTIVATIONS.values())):
            if head.transform.activation != activation and activation != "xielu":
                yield _one(f"before the head: {activation or 'no activation'}", Put("head.transform.activation", activation))


def _heads(fit: Fit, table: Mapping[str, Any]) -> Iterator[Hint]:
    heads = next(heads_in(fit.architecture), None)
    assert fit.architecture is not None
    if heads is None:
        return
    normed = get(heads, "qk_norm")
    if normed is not None:
        for over in ("head", "each_head", "projection"):
            for at in ("before_rotary", "after_rotary"):
                if (over, at) != (normed.over, normed.at):
                    yield _one(f"norms of queries and keys: of {over}, {at}", HeadsNormed(over, at))
    width = heads.width_of_head(fit.architecture.width)
    scales = [
        1.0,
        1 / width,
        *(float(value) ** -0.5 for name, value in table.items() if "scalar" in name and value),
        *(float(value) for name, value in table.items() if "attention" in name and "mult" in name and value),
    ]
    for scale in dict.fromkeys((None, *scales)):
        if heads.score.scale != scale:
            yield _one(f"factor of scores: {scale or 'E^-0.5'}", Put("attention.scale", scale))
    for name, value in table.items():
        if "softcap" in name and isinstance(value, int | float) and heads.score.softcap != value:
            yield _one(f"bound of scores: {value}", Put("attention.softcap", float(value)))
    for why, more in grouped(fit):
        if more.items() - fit.derivation.more.items():
            yield Hint(why, (), more)


def _masks(fit: Fit, table: Mapping[str, Any]) -> Iterator[Hint]:
    heads = next(heads_in(fit.architecture), None)
    if heads is None:
        return
    size = table.get("sliding_window")
    if heads.mask.window:
        yield _one("no window", Put("attention.mask", Causal()))
    elif isinstance(size, int) and size > 0 and isinstance(heads.mask, Causal):
        yield _one(f"a window of {size} tokens in every layer", Put("attention.mask", Window(size=size)))


def _wiring(fit: Fit) -> Iterator[Hint]:
    """Other places of the norms, and other orders among them."""
    names = tuple(
        sorted(
            {
                fit.matched[line.module.name]
                for line in fit.lines
                if line.stack and is_norm(line) and line.module.name in fit.matched
            }
        )
    )
    architecture = fit.architecture
    if architecture is None or not names:
        return
    if len(architecture.stacks) > 1:  # a family of two stacks names the norms of every wiring that it knows
        yield from (Hint(f"norms of a layer: {wiring}", (Wired(wiring),)) for wiring in ("pre", "post", "output"))
        return
    for wiring in wirings_of(names):
        for slots in assignments(wiring, names, architecture, most=2):
            yield Hint(f"norms of a layer: {wiring} ({', '.join(slots.values())})", (Wired(wiring),), slots)


def described(architecture: Architecture) -> tuple[tuple[str, str], ...]:
    """(what, value) of everything that no shape told."""
    heads = next(heads_in(architecture), None)
    found: list[tuple[str, str]] = []
    if heads is not None:
        rotary = get(heads, "rotary")
        found.append(("rotary positions", "none" if rotary is None else f"theta {rotary.theta:g}, pairs {rotary.pairing}"))
        found.append(("factor of scores", "E^-0.5" if heads.score.scale is None else f"{heads.score.scale:g}"))
    for sublayer in {each for block in blocks_in(architecture) for each in block.sublayers}:
        if isinstance(sublayer, FeedForward | Experts):
            found.append(("activation", sublayer.activation))
    norm = next(norms_of_layer(architecture), None)
    if isinstance(norm, RMSNorm | LayerNorm):
        found.append(("norm", f"{norm.kind}, epsilon {norm.eps:g}, gain {norm.gain}"))
    return tuple(dict.fromkeys(found))
