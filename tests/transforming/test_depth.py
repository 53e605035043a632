"""Where the layers of a deeper or shallower stack come from."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch

import anyformer as af
from anyformer.parts.layers.order import parse_order
from anyformer.transforming import TransformChoices, transform
from anyformer.transforming.depth import _embedded, origins
from transforming.changed import tiny, trained

GEMMA = tiny("gemma-3-4b")


def numbers(old: str, new: str) -> list[int]:
    """The old layer of each new one, those of added layers negative (less 1)."""
    names = set(parse_order(old)) | set(parse_order(new))
    base = tiny("llama-3-8b").decoder if names == {"layer"} else GEMMA.decoder
    before, after = base.but(order=old), base.but(order=new)
    return [-1 - each.layer if each.added else each.layer for each in origins(before, after, None, "decoder")]


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("layer*4", "layer*4", [0, 1, 2, 3]),
        ("layer*4", "layer*8", [0, -1, 1, -2, 2, -3, 3, -4]),
        ("layer*4", "layer*6", [0, 1, -2, 2, 3, -4]),
        ("layer*12", "layer*6", [0, 2, 4, 7, 9, 11]),
        ("layer*5", "layer*1", [0]),
        ("(local*2 global)*2", "(local*2 global)*3", [0, 1, 2, -2, -1 - 1, -3, 3, 4, 5]),
        ("(local*2 global)*3", "(local*2 global)*2", [0, 1, 2, 6, 7, 8]),
    ],
)
def test_layers_are_spread_evenly_and_in_order(old, new, wanted):
    found = numbers(old, new)
    kept = [each for each in found if each >= 0]
    assert kept == sorted(kept)
    if "global" not in old:
        assert found == wanted
    else:
        after, before = parse_order(new), parse_order(old)
        assert [before[each if each >= 0 else -1 - each] for each in found] == list(after), "each from its own variant"
        assert len(kept) == min(len(after), len(before))


def test_the_places_are_the_nearest_of_all():
    short, long, ideal = "aba", "aabbaab", [0.0, 3.0, 6.0]
    ways = [way for way in combinations(range(7), 3) if [long[i] for i in way] == list(short)]
    best = min(sum(abs(i - j) for i, j in zip(way, ideal, strict=True)) for way in ways)
    found = _embedded(short, long, ideal)
    assert found in ways
    assert sum(abs(i - j) for i, j in zip(found, ideal, strict=True)) == best
    assert _embedded("abc", "acb", ideal) is None


def test_chosen_layers_are_those():
    model = trained(tiny("llama-3-8b", decoder__order="layer*4"))
    new = tiny("llama-3-8b", decoder__order="layer*3")
    made, report = transform(model, new, TransformChoices(layers=(3, 0, 3)))
    assert report.layers == {"decoder": (3, 0, 3)}
    old, now = (each.decoder.layers for each in (model, made))
    for here, there in ((0, 3), (1, 0), (2, 3)):
        assert torch.equal(now[here].attention.sublayer.query.weight, old[there].attention.sublayer.query.weight)
    assert now[0].attention.sublayer.output.weight.any()
    assert not now[2].attention.sublayer.output.weight.any(), "the second of a layer named twice is silent"
    dropped = [line for line in report.lines if line.fate == "dropped"]
    assert {line.layers for line in dropped} == {"1-2"}


def test_layers_that_shared_weights_become_layers_of_their_own():
    shared = tiny("llama-3-8b", decoder__order="layer*3", decoder__shared_weights=["layer"])
    model = trained(shared)
    made, report = transform(model, af.architecture(shared, changes={"decoder.shared_weights": []}))
    first, last = (made.decoder.layers[i].feedforward.sublayer.up.weight for i in (0, 2))
    assert torch.equal(first, last)
    assert first.data_ptr() != last.data_ptr()
    assert report.parameters("copied") > 0
    assert report.logits_error < 1e-6
