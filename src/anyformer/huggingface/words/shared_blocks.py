"""Layers of which some read a block that they share (Zamba, arXiv 2405.16712; Zamba2, 2411.15242).

A shared block reads the stream and what entered the layers, and leaves its output aside. The layer behind it adds a linear map
of that output to what its mixer reads, and not to the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from anyformer.describe import Named
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.rules import Table, To, under
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.state_space import LINEAR
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Block,
    Branch,
    FeedForward,
    Joined,
    RMSNorm,
    Score,
    Skip,
    Stack,
    Step,
)
from anyformer.parts.layers.order import write_order

HYBRID = "hybrid"
"""Transformers' type of a layer that reads a shared block."""
SHARED = "shared"
"""The branch that reads the shared block before a layer."""


def hybrid_types(config: Config, depth: int, absent: Callable[[int], Sequence[str]]) -> list[str]:
    """`linear_attention` or `hybrid` per layer, also by the words of older files.

    `depth`: the default of L; `absent(L)`: the types where nothing lists them.
    """
    depth = config("num_hidden_layers", depth, lambda target: len(types_of_layers(target)))
    given: Sequence[str] = config("layers_block_type", None, types_of_layers) or absent(depth)
    listed = [{"mamba": LINEAR}.get(word, word) for word in given]
    unknown = sorted(set(listed) - {LINEAR, HYBRID})
    if unknown or len(listed) != depth or HYBRID not in listed:
        raise HuggingFaceError(
            f"{config.where}: layers_block_type should say {LINEAR} or {HYBRID} for each of {depth} layers, and {HYBRID} for "
            f"one at least, got {len(listed)} entries" + (f", among them {', '.join(unknown)}" if unknown else "")
        )
    return listed


def types_of_layers(target: Target) -> list[str]:
    """The type of each layer; shared blocks are none of them."""
    return [HYBRID if SHARED in block.branches else LINEAR for block in target.blocks if block.output == "stream"]


def beside_embeddings(norm: RMSNorm, *, heads: int, kv_heads: int, head_width: int, **fields: Any) -> Attention:
    """Attention that reads the stream and the embeddings side by side; the factor of its scores is that of half a head."""
    scale = (max(head_width, 1) / 2) ** -0.5
    made = Attention(heads=heads, kv_heads=kv_heads, head_width=head_width, score=Score(scale=scale))
    return made.but(joined=Joined(norm=norm), **fields)


def shared_block(heads: Attention, norm: RMSNorm, network: FeedForward) -> Block:
    """Attention, then a network, with nothing added in between."""
    attends = Step(branches=Named(attention=Branch(sublayer=heads)), residual="none")
    thinks = Step(branches=Named(feedforward=Branch(norm_before=norm, sublayer=network)), residual="none")
    return Block(steps=(attends, thinks), output="aside")


def hybrid_stack(
    kinds: Sequence[str],
    sets: int,
    shared: Callable[[int], Block],
    mixes: Step,
    final_norm: RMSNorm,
    *,
    tied: bool = True,
) -> Stack:
    """The layers, before every hybrid one the next of `sets` shared blocks.

    `shared(n)`: a block that stands before n layers; `mixes`: the step of every layer.
    `tied`: whether a block has one set of weights; transformers gives each layer its own where the head is not tied either.
    """
    readers = kinds.count(HYBRID)
    used = min(sets, readers)
    variants, order, uses = dict[str, Block](), list[str](), 0
    for kind in kinds:
        if kind == LINEAR:
            order.append("mamba")
            variants["mamba"] = Block(steps=(mixes,))
            continue
        number = f"_{uses % used}" if used > 1 else ""
        block = shared(len(range(uses % used, readers, used)))
        source, reader = f"{SHARED}{number}", f"{HYBRID}{number}"
        reads = Step(branches=Named({SHARED: Branch(sublayer=Skip(variant=source, projected=True))}))
        variants |= {source: block, reader: Block(steps=(reads, mixes.but(residual="block")))}
        order += [source, reader]
        uses += 1
    names = tuple(name for name, block in variants.items() if block.output == "aside")
    weights = names if tied else ()
    return Stack(variants=Named(variants), order=write_order(order), shared_weights=weights, final_norm=final_norm)


def shared_sets(target: Target) -> int:
    """The number of shared blocks."""
    return len(target.stack.shared_weights)


def hybrid_names(
    architecture: Architecture, theirs_shared: str, shared: Callable[[int], Table], reads: Table, mixer: Callable[[int], Table]
) -> dict[Any, Any]:
    """The names of all layers.

    `theirs_shared`: their module of a shared block, stored in the first layer that reads it; `shared(j)`: names in the j-th;
    `reads`: of what a hybrid layer computes before its mixer; `mixer(i)`: of the mixer of a layer, which is its step i.
    """
    stack, table, number, first = architecture.output_stack, dict[Any, Any](), 0, 0
    for i, name in enumerate(stack.layers):
        ours, theirs, block = f"decoder.layers.{i}.", f"model.layers.{number}.", stack.variants[name]
        if block.output == "aside":
            if stack.owners[i] == i:
                table |= _placed(ours, f"{theirs}{theirs_shared}.", shared(first))
                first += 1
            continue
        hybrid = SHARED in block.branches
        table |= _placed(ours, theirs, reads) if hybrid else {}
        table |= _placed(ours, f"{theirs}mamba_decoder." if hybrid else theirs, mixer(int(hybrid)))
        number += 1
    return table


def _placed(ours: str, theirs: str, table: Table) -> dict[Any, str | To]:
    """The table with prefixes before our names and the stored ones."""
    return {
        ours + names if isinstance(names, str) else tuple(ours + name for name in names): to
        for names, to in under(theirs, table).items()
    }
