"""Tiny models around one part, whose logits every part changes visibly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from anyformer.describe import Value
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Dictionary,
    Differential,
    Embedding,
    Experts,
    FeedForward,
    Head,
    Initialisation,
    LinearAttention,
    Normal,
    RMSNorm,
    Rotary,
    Router,
    pre_norm,
)
from anyformer.parts.attention.score_bias import ScoreBias
from anyformer.parts.attention.slots import Adjustment, Combine, Term
from anyformer.parts.attention.weigh import Map, Weigh
from anyformer.parts.dictionary.codes import Code
from anyformer.parts.experts.selection import Selection
from anyformer.parts.initialisation import InitialisationRule
from anyformer.parts.masks.mask import Mask
from anyformer.parts.norms.norm import Norm
from anyformer.parts.positions.absolute import Position
from anyformer.parts.positions.place import Place
from anyformer.parts.positions.rotary_scaling import RotaryScaling
from anyformer.parts.recurrence.feature_map import FeatureMap
from anyformer.parts.sublayer import Sublayer

VOCAB, WIDTH = 37, 24
LOUD = Initialisation(matrix=Normal(std=0.25), embedding=Normal(std=0.7), head=Normal(std=0.3))
"""Larger initial weights than in practice, so that a mistake of any part changes the logits visibly."""


def decoder_of(*sublayers: Sublayer, norm: Norm | None = None, **more: Any) -> Architecture:
    """A decoder of one layer for each of `sublayers`, D = 24, with a feed-forward network after each."""
    norm = norm or RMSNorm()
    blocks = [pre_norm(norm, sublayer, FeedForward(width=20)) for sublayer in sublayers]
    more = {"initialisation": LOUD, **more}
    return decoder_only(Embedding(vocab=VOCAB), WIDTH, blocks, final_norm=norm, head=Head(), **more)


def _attention(**fields: Any) -> Architecture:
    return decoder_of(*[Attention(heads=4, place=Rotary()).but(**fields)] * 2)


def _of_pairs_too(of_scores: Map) -> Architecture:
    """A layer that weighs so, and one of differential attention, whose maps have half of the heads, where it can."""
    alone = bool(of_scores.in_the_way("pairs of heads"))
    weighs = (of_scores, of_scores if alone else Differential(maps=of_scores))
    return decoder_of(*(Attention(heads=4, place=Rotary()).but(weigh=each) for each in weighs))


def _experts(choice: Selection) -> Architecture:
    experts = Experts(experts=4, chosen=2, width=12, router=Router(choice=choice))
    return decoder_of(Attention(heads=4, place=Rotary()), experts)


PLACES: Mapping[type[Value], Callable[[Any], Architecture]] = {
    Architecture: lambda whole: whole,
    Sublayer: lambda part: decoder_of(part, Attention(heads=4, place=Rotary()), part),
    Norm: lambda norm: decoder_of(*[Attention(heads=4, place=Rotary())] * 2, norm=norm),
    Mask: lambda mask: _attention(mask=mask),
    ScoreBias: lambda bias: _attention(terms=bias, place=()),
    Term: lambda term: _attention(terms=term),
    Adjustment: lambda adjustment: _attention(adjust=adjustment),
    Map: _of_pairs_too,
    Weigh: lambda weigh: _attention(weigh=weigh),
    Combine: lambda part: _attention(combine=part),
    Place: lambda place: _attention(place=(Rotary(), place)),
    Rotary: lambda rotary: _attention(place=rotary),
    RotaryScaling: lambda scaling: _attention(rotary=Rotary(scaling=scaling)),
    Position: lambda position: decoder_of(*[Attention(heads=4)] * 2, position=position),
    Code: lambda code: decoder_of(Dictionary(features=40, code=code), Attention(heads=4, place=Rotary())),
    FeatureMap: lambda feature_map: decoder_of(*[LinearAttention(heads=4, feature_map=feature_map)] * 2),
    Selection: _experts,
    InitialisationRule: lambda rule: decoder_of(Attention(heads=4), initialisation=LOUD.but(matrix=rule)),
}
"""Base class of parts -> a tiny architecture in which one of them stands."""


def around(part: Value) -> Architecture | None:
    """A tiny architecture in which a part stands, itself if it is one; None where no place is usual for its kind of part."""
    place = next((PLACES[base] for base in type(part).__mro__ if base in PLACES), None)
    return None if place is None else place(part)
