"""The common wirings of a block as steps of branches, named after the kinds of their sublayers; a stack from layers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypedDict, Unpack

from anyformer.describe import Named
from anyformer.parts.attention.relative import RelativeTable
from anyformer.parts.attention.score_bias import SharedBias
from anyformer.parts.embedding.condition import Condition
from anyformer.parts.embedding.input_projection import InputProjection
from anyformer.parts.embedding.layer_inputs import LayerInputs
from anyformer.parts.layers.block import Block
from anyformer.parts.layers.branch import Branch
from anyformer.parts.layers.modulation import Modulation
from anyformer.parts.layers.order import write_order
from anyformer.parts.layers.stack import Stack
from anyformer.parts.layers.step import Step
from anyformer.parts.layers.streams import Streams
from anyformer.parts.norms.norm import Norm
from anyformer.parts.positions.absolute import Position
from anyformer.parts.sublayer import Sublayer


def pre_norm(norm: Norm, *sublayers: Sublayer, dropout: float = 0.0, multiplier: float = 1.0) -> Block:
    """x = x + multiplier * sublayer(norm(x)), one after the other (GPT-2, Llama; with a multiplier Granite)."""
    branches = [Branch(norm_before=norm, sublayer=s, dropout=dropout, multiplier=multiplier) for s in sublayers]
    return _serial([(branch.sublayer.called, branch) for branch in branches])


def post_norm(norm: Norm, *sublayers: Sublayer, dropout: float = 0.0) -> Block:
    """x = norm(x + sublayer(x)) (the original Transformer, BERT)."""
    steps = [Step(branches=Named({s.called: Branch(sublayer=s, dropout=dropout)}), norm_after=norm) for s in sublayers]
    return Block(steps=tuple(steps))


def sandwich(norm: Norm, *sublayers: Sublayer, dropout: float = 0.0) -> Block:
    """x = x + norm(sublayer(norm(x))) (Gemma 2: double norm)."""
    branches = [(s.called, Branch(norm_before=norm, sublayer=s, norm_after=norm, dropout=dropout)) for s in sublayers]
    return _serial(branches)


def output_norm(norm: Norm, *sublayers: Sublayer, dropout: float = 0.0) -> Block:
    """x = x + norm(sublayer(x)) (OLMo 2)."""
    return _serial([(s.called, Branch(sublayer=s, norm_after=norm, dropout=dropout)) for s in sublayers])


def parallel(norm: Norm, *sublayers: Sublayer, dropout: float = 0.0, shared_norm: bool = True) -> Block:
    """x = x + sum of sublayer(norm(x)): one norm for all branches (GPT-J, PaLM) or one each (GPT-NeoX)."""
    before = None if shared_norm else norm
    branches: dict[str, Branch] = {s.called: Branch(norm_before=before, sublayer=s, dropout=dropout) for s in sublayers}
    return Block(steps=(Step(norm_before=norm if shared_norm else None, branches=Named(branches)),))


def residual(*sublayers: Sublayer, dropout: float = 0.0) -> Block:
    """x = x + sublayer(x): for sublayers with norms of their own (dual cross-attention)."""
    return _serial([(s.called, Branch(sublayer=s, dropout=dropout)) for s in sublayers])


def _serial(branches: Sequence[tuple[str, Branch]]) -> Block:
    return Block(steps=tuple(Step(branches=Named({name: branch})) for name, branch in branches))


class StackOptions(TypedDict, total=False):
    """The fields of a `Stack` beside its layers."""

    position: Position | None
    input_norm: Norm | None
    input_norm_at: Literal["after_position", "before_position"]
    dropout: float
    input_projection: InputProjection | None
    final_norm: Norm | None
    final_modulation: Modulation | None
    condition: Condition | None
    score_bias: SharedBias | None
    relative: RelativeTable | None
    layer_inputs: LayerInputs | None
    streams: Streams | None
    shared_weights: tuple[str, ...]


def stack(layers: Iterable[Block], *, names: Named[Block] | None = None, **options: Unpack[StackOptions]) -> Stack:
    """A stack from its layers in order. Equal blocks are one variant, named as in `names`, else `layer` or `layer_a`, ..."""
    blocks = list(layers)
    distinct = list(dict.fromkeys(blocks))
    name_of = {block: name for name, block in (names or {}).items()}
    for i, block in enumerate(distinct):
        name_of.setdefault(block, "layer" if len(distinct) == 1 else f"layer_{chr(ord('a') + i)}" if i < 26 else f"layer_{i}")
    return Stack(
        variants=Named({name_of[block]: block for block in distinct}),
        order=write_order(name_of[block] for block in blocks),
        **options,
    )
