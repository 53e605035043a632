"""The common wirings of a block as steps of branches. A branch is named after the kind of its sublayer."""

from __future__ import annotations

from collections.abc import Sequence

from anyformer.describe import Named
from anyformer.parts.layers.block import Block, Step
from anyformer.parts.layers.branch import Branch
from anyformer.parts.norms.norm import Norm
from anyformer.parts.sublayer import Sublayer


def pre_norm(norm: Norm, *sublayers: Sublayer, dropout: float = 0.0, multiplier: float = 1.0) -> Block:
    """x = x + multiplier * sublayer(norm(x)), one after the other (GPT-2, Llama; with a multiplier Granite)."""
    branches = [Branch(norm_before=norm, sublayer=s, dropout=dropout, multiplier=multiplier) for s in sublayers]
    return _serial([(branch.sublayer.kind, branch) for branch in branches])


def post_norm(norm: Norm, *sublayers: Sublayer, dropout: float = 0.0) -> Block:
    """x = norm(x + sublayer(x)) (the original Transformer, BERT)."""
    steps = [Step(branches=Named({s.kind: Branch(sublayer=s, dropout=dropout)}), norm_after=norm) for s in sublayers]
    return Block(steps=tuple(steps))


def sandwich(norm: Norm, *sublayers: Sublayer, dropout: float = 0.0) -> Block:
    """x = x + norm(sublayer(norm(x))) (Gemma 2: double norm)."""
    branches = [(s.kind, Branch(norm_before=norm, sublayer=s, norm_after=norm, dropout=dropout)) for s in sublayers]
    return _serial(branches)


def output_norm(norm: Norm, *sublayers: Sublayer, dropout: float = 0.0) -> Block:
    """x = x + norm(sublayer(x)) (OLMo 2)."""
    return _serial([(s.kind, Branch(sublayer=s, norm_after=norm, dropout=dropout)) for s in sublayers])


def parallel(norm: Norm, *sublayers: Sublayer, dropout: float = 0.0, shared_norm: bool = True) -> Block:
    """x = x + sum of sublayer(norm(x)): one norm for all branches (GPT-J, PaLM) or one each (GPT-NeoX)."""
    before = None if shared_norm else norm
    branches: dict[str, Branch] = {s.kind: Branch(norm_before=before, sublayer=s, dropout=dropout) for s in sublayers}
    return Block(steps=(Step(norm_before=norm if shared_norm else None, branches=Named(branches)),))


def residual(*sublayers: Sublayer, dropout: float = 0.0) -> Block:
    """x = x + sublayer(x): for sublayers with norms of their own (dual cross-attention)."""
    return _serial([(s.kind, Branch(sublayer=s, dropout=dropout)) for s in sublayers])


def _serial(branches: Sequence[tuple[str, Branch]]) -> Block:
    return Block(steps=tuple(Step(branches=Named({name: branch})) for name, branch in branches))
