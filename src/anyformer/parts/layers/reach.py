"""Which layers of a stack a gradient of the outputs reaches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anyformer.parts.layers.block import Block


def reached(layers: Sequence[str], variants: Mapping[str, Block]) -> tuple[bool, ...]:
    """For each layer, by the name of its variant, whether a gradient passes it: from the next layer, or from one that reads it.

    A layer that detaches passes none to the layer before, as in truncated backpropagation (Williams & Peng 1990, doi
    10.1162/neco.1990.2.4.490), while values that layers read of others, by name, have theirs.
    """
    if not any(block.detaches for block in variants.values()):
        return (True,) * len(layers)
    found = {len(layers) - 1}
    for i in reversed(range(len(layers))):
        block = variants[layers[i]]
        if i in found:
            found |= set() if block.detaches or i == 0 else {i - 1}
            read = {each.variant for each in block.reads if each.variant is not None and not each.constant}
            found |= {max(j for j in range(i) if layers[j] == variant) for variant in read}
    return tuple(i in found for i in range(len(layers)))
