"""Totals of five published architectures, as they were counted by hand before they were read off the built model."""

from __future__ import annotations

import pytest

import anyformer as af
from anyformer.costs.activations import activations
from anyformer.operations import Shape
from anyformer.plan import Plan

NOISE = 8 * (2 + 1)
"""The key and the rows of a call's noise, which layers with dropout need when they are computed again."""
GOLDEN = {
    "gpt2": [(565578752, 247064064, 0), (320019456 + NOISE, 77194752, 25182208), (131275776 + NOISE, 77194752, 37765120)],
    "llama-3-8b": [
        (6878168064, 15009316864, 0), (3655898112, 1050673152, 136601600), (564696064, 1050673152, 205938688),
    ],
    "deepseek-v3": [
        (68040059904, 1339984576512, 0), (42383617024, 1853358080, 1047898112), (1219013632, 1853358080, 1123395584),
    ],
    "t5-base": [(1262864384, 445710336, 0), (591183872 + NOISE, 49348608, 57164288), (119324672 + NOISE, 49348608, 69747200)],
    "qwen3-next-80b-a3b": [
        (25461771264, 158623006720, 0), (8717997056, 622329856, 565785088), (533500928, 622329856, 609825280),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", GOLDEN)
def test_published_architectures(name):
    """(kept and loss, copies of weights, the largest layer computed again), of 2 x 512 tokens in bf16, by checkpointing."""
    architecture = af.architecture(name, changes={"mtp": None})
    shape = Shape(batch=2, length=512, source=architecture.source_of(512))
    for how, figures in zip(("none", "selective", "full"), GOLDEN[name], strict=True):
        found = activations(architecture, shape, Plan(precision="bf16", attention="sdpa", checkpointing=how))
        layers = (sum(tensor.bytes for tensor in layer if not tensor.copies) for layer in found.recomputed.values())
        assert (found.saved + found.loss, found.casts, max(layers, default=0)) == figures
