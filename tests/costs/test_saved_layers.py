"""Which layers are traced, and that those left out would have said the same."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from zoo import ZOO

import anyformer as af
from anyformer.costs.saved import TraceQuestion
from anyformer.costs.saved import tracing as module
from anyformer.costs.saved.reduced import TRACED, _traced, reduced
from anyformer.costs.saved.tracing import trace
from anyformer.describe import Named, change_all
from anyformer.model import decoder_only
from anyformer.operations import Shape
from anyformer.parts import Capacity, Embedding, FeedForward, LightningAttention, RMSNorm, pre_norm
from anyformer.plan import Plan

BF16 = Plan(precision="bf16", attention="sdpa")


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=40))
def test_every_layer_traced_stands_behind_the_kind_that_it_stands_behind(kinds):
    pairs = list(pairwise((None, *kinds)))
    chosen = _traced(pairs)
    assert list(pairwise((None, *(kinds[i] for i in chosen)))) == [pairs[i] for i in chosen]
    assert chosen == sorted(set(chosen))
    there, traced = Counter(pairs), Counter(pairs[i] for i in chosen)
    assert all(traced[pair] >= min(count, TRACED) for pair, count in there.items())


def of_variants(name: str, path: str, values) -> af.Architecture:
    """One block in as many variants as there are values, all three times over; the path begins with its name."""
    base, variant = ZOO[name], path.partition(".")[0]
    blocks = {
        f"{variant}_{i}": change_all(base, {f"decoder.{path}": value}).decoder.variants[variant]
        for i, value in enumerate(values)
    }
    order = f"({' '.join(blocks)})*3"
    return base.but(decoder=base.decoder.but(variants=Named(blocks), order=order, shared_weights=()))


@pytest.mark.parametrize(
    ("name", "path", "values", "most"),
    [
        ("llama", "layer.attention.norm_before.eps", [i * 1e-6 for i in range(1, 9)], 10),
        ("llama", "layer.attention.sublayer.rotary.theta", [10_000.0 * i for i in range(1, 9)], 24),
        ("llama", "layer.attention.sublayer.rotary.fraction", [0.35, 0.4, 0.7, 0.75, 1.0], 24),
        ("llama", "layer.feedforward.sublayer.dropout", [0.0, 0.1, 0.2, 0.3, 0.4, 0.0, 0.5], 24),
        ("softcap_scale_qk_norm", "layer.attention.sublayer.softcap", [10.0, 20.0, 30.0, 40.0, 50.0], 12),
    ],
)
def test_variants_that_differ_in_a_number_are_priced_as_if_each_were_traced(name, path, values, most):
    """A base that makes every layer's table anew, a share of features, a dropout of none: none of it is taken for alike."""
    architecture = of_variants(name, path, values)
    for recomputed in (False, True):
        question = TraceQuestion(architecture, Shape(batch=2, length=11), BF16, recomputed=recomputed)
        found, whole = trace(question), module._trace(question, reduced(question, merged=False))
        assert sizes(found) == sizes(whole)
    assert len(reduced(question).layers["decoder"]) <= most


def test_a_capacity_is_a_number_that_moves_sizes():
    """Each of five capacities pads its experts to another length."""
    path = "layer.experts.sublayer.capacity"
    architecture = of_variants("experts", path, [Capacity(factor=each) for each in (1.0, 1.25, 1.5, 1.75, 2.0)])
    question = TraceQuestion(architecture, Shape(batch=2, length=64), BF16)
    assert sizes(trace(question)) == sizes(module._trace(question, reduced(question, merged=False)))


def sizes(saved):
    """Bytes by layer and by why they are there."""
    found = Counter()
    for held in ("saved", "copy", "input", "product"):
        for each in saved.of(held):
            found[each.layer, held, each.divided] += each.bytes
    for layer in saved.like:
        for each in saved.in_layer(layer, "recomputed", "recomputed product", "recomputed copy"):
            found[layer, each.reason, each.divided] += each.bytes
    return found


def test_kinds_that_differ_in_a_float_are_three():
    """The smallest, the largest and all between them: here, how fast a head forgets."""
    mixers = [LightningAttention(heads=2, decay=1 / (layer + 1)) for layer in range(20)]
    blocks = {f"lightning_{i}": pre_norm(RMSNorm(), mixer, FeedForward(width=32)) for i, mixer in enumerate(mixers)}
    architecture = decoder_only(Embedding(vocab=32), 16, list(blocks.values()), names=Named(blocks))
    question = TraceQuestion(architecture, Shape(batch=1, length=128), BF16)
    assert len(reduced(question).layers["decoder"]) < 14
    assert all(module._alike(trace(question), *pair) for pair in reduced(question).alike)
