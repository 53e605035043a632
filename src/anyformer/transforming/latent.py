"""Keys and values of heads factored into a latent: what can be said before any weight is read."""

from __future__ import annotations

import torch

from anyformer.parts.layout import HeadsLayout, LatentLayout, WeightLayout
from anyformer.parts.positions.rotary import Rotary
from anyformer.parts.positions.rotary_module import angles
from anyformer.transforming.errors import TransformError
from anyformer.transforming.factored import Factored, Turn
from anyformer.transforming.operation import TransformStep

INPUTS = "sublayer"


def factoring(old: WeightLayout, new: WeightLayout, where: str, writes: frozenset[str]) -> tuple[TransformStep, ...] | None:
    """The step from attention over heads to attention through a latent; None if it is another change.

    Raises `TransformError` for what the new attention has no place for.
    """
    heads, latent = old.heads, new.latent
    if heads is None or latent is None:
        return None
    _check(heads, latent, where)
    turns = _turns(heads, latent, where)
    names = [latent.query_up, latent.kv_down, latent.rope_key, latent.key_up, latent.value_up]
    names += [latent.query_down] if latent.q_rank else []
    operation = Factored(heads, latent, turns)
    return (TransformStep(tuple(names), (heads.query, heads.key, heads.value), operation, INPUTS),)


def _check(heads: HeadsLayout, latent: LatentLayout, where: str) -> None:
    if heads.beyond:
        raise TransformError(
            f"{where}: attention through a latent has no place for {', '.join(heads.beyond)}; only attention without them can "
            "be factored"
        )
    if latent.inexact:
        raise TransformError(
            f"{where}: {', '.join(latent.inexact)} changes the latent by its size, which no weights undo; leave it out, and "
            "put it back in by training"
        )
    for name, here, there in (
        ("heads", heads.heads, latent.heads), ("value_width", heads.value_width, latent.value_width),
    ):  # fmt: skip
        if here != there:
            raise TransformError(f"{where}: {name} {here} -> {there}; factoring keeps the heads, so set {name} = {here}")
    if latent.rotary is None and heads.rotary is not None:
        raise TransformError(f"{where}: the keys are rotated, and without rotary no position would be told; set rotary")


def _turns(heads: HeadsLayout, latent: LatentLayout, where: str) -> tuple[Turn, ...]:
    """For each pair of the shared rotated key its features, and the pairs of a head that it stands for."""
    old, new = heads.rotary, latent.rotary
    if old is None or new is None:
        return ()
    if old.scaling != new.scaling:
        raise TransformError(f"{where}: rotary.scaling differs; keep it, and change it in a step of its own")
    if new.rotated(latent.rope_width) != latent.rope_width:
        raise TransformError(f"{where}: rotary.fraction = {new.fraction}: all of rope_width is rotated; set it to 1")
    theirs, ours = _frequencies(old, heads.head_width), _frequencies(new, latent.rope_width)
    if len(ours) > len(theirs) or len(theirs) % len(ours):
        raise TransformError(
            f"{where}: a head has {2 * len(theirs)} rotated features, and rope_width = {latent.rope_width} must divide them"
        )
    fold = len(theirs) // len(ours)
    # Where neighbours are folded into one, it turns as fast as one of them, and the frequencies stay those of the paper.
    if not torch.allclose(ours, theirs[::fold], rtol=1e-4):
        raise TransformError(
            f"{where}: rotary turns the {latent.rope_width} features at other frequencies than the head's; keep rotary.theta"
        )
    of_head, of_key = old.pairs(heads.head_width), new.pairs(latent.rope_width)
    return tuple(Turn(place, of_head[i * fold : (i + 1) * fold]) for i, place in enumerate(of_key))


def _frequencies(rotary: Rotary, head_width: int) -> torch.Tensor:
    """(R / 2), the angle by which each pair turns from one position to the next."""
    return angles(rotary, torch.ones(1, 1, dtype=torch.int64), head_width)[0, 0]
