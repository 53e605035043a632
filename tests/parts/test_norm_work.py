"""The work of norms, held against their formulas evaluated with numbers that count what is done to them."""

from __future__ import annotations

import math

import pytest

from anyformer.catalogue import architecture
from anyformer.costs.elementwise import elementwise
from anyformer.operations import Elementwise, Shape, Tally
from anyformer.parts import (
    AdaptedNorm,
    Affine,
    Attention,
    BatchNorm,
    DelayNorm,
    DynamicTanh,
    GainedFirst,
    GatedNorm,
    GroupedLayerNorm,
    GroupedRMSNorm,
    LayerNorm,
    QKNorm,
    RMSNorm,
    UnitNorm,
)


class Counted:
    """A number of which each sum, difference, product, quotient, root, size and comparison adds one to `done`."""

    done = 0

    def __init__(self, value: float) -> None:
        self.value = value

    @classmethod
    def made(cls, value: float) -> Counted:
        Counted.done += 1
        return cls(value)

    def __add__(self, other):
        return self.made(self.value + plain(other))

    def __sub__(self, other):
        return self.made(self.value - plain(other))

    def __mul__(self, other):
        return self.made(self.value * plain(other))

    def __truediv__(self, other):
        return self.made(self.value / plain(other))

    def __abs__(self):
        return self.made(abs(self.value))

    def __gt__(self, other):
        """A comparison counts one, as `max` asks for it."""
        Counted.done += 1
        return self.value > plain(other)

    def root(self):
        return self.made(math.sqrt(self.value))

    def tanh(self):
        """An activation counts as many operations as SiLU, whatever its formula: x / (1 + exp(-x))."""
        Counted.done += 4
        return Counted(math.tanh(self.value))


def plain(number) -> float:
    return number.value if isinstance(number, Counted) else number


def mean(v):
    total = v[0]
    for x in v[1:]:
        total = total + x
    return total / len(v)


def rms(v):
    root = (mean([x * x for x in v]) + 1e-5).root()
    return [x / root for x in v]


def to_length_1(v):
    total = v[0] * v[0]
    for x in v[1:]:
        total = total + x * x
    root = (total + 1e-6).root()
    return [x / root for x in v]


def centred(v):
    middle = mean(v)
    return rms([x - middle for x in v])


def standing(v):
    """The mean and the root of the variance are weights, worked out once."""
    return [(x - 0.1) / 1.1 for x in v]


def bounded(v):
    return [(x * 0.5).tanh() for x in v]


def weighed(v):
    """The gate's two products are no element-wise work: its numbers come from outside."""
    n = [x * 0.9 for x in rms(v)]
    for number in (0.1, 0.2, 0.3):
        Counted(number).tanh()
    return [x * Counted(0.3).tanh() for x in n]


def adapted(v):
    n = [x * 0.9 + 0.1 for x in centred(v)]
    for number in (0.1, 0.2, 0.3):
        Counted(number).tanh()
    return [x * 0.9 + 0.1 for x in centred([x + 0.2 for x in n])]


def by_delay(v):
    """The gains are worked out once, before the first vector."""
    if not Counted.done:
        for number in (0.1, 0.2, 0.3):
            Counted(number).tanh()
    return [x * 0.9 * 1.1 for x in rms(v)]


def work(tally: Tally) -> Elementwise:
    """All element-wise work of a norm, of which a gated one has some beside that of the norm it holds."""
    all_work = [each for node in tally.nodes() for each in node.tally.own_work.values() if isinstance(each, Elementwise)]
    return Elementwise("norms", sum(each.dense for each in all_work), sum(each.exact for each in all_work))


def in_pieces(normalised, number):
    def whole(v):
        size = len(v) // number
        return [x for start in range(0, len(v), size) for x in normalised(v[start : start + size])]

    return whole


def counted(normalised, norm, width, vectors) -> int:
    Counted.done = 0
    for j in range(vectors):
        v = normalised([Counted(0.3 + i * j) for i in range(width)])
        v = v if norm.gain == "none" else [x * 0.9 for x in v]
        v = [x + 0.1 for x in v] if norm.bias else v
    return Counted.done


CASES = {
    "rms": (RMSNorm(), rms),
    "rms_gemma": (RMSNorm(gain="one_plus_weight"), rms),
    "rms_bare": (RMSNorm(gain="none"), rms),
    "rms_bias": (RMSNorm(bias=True), rms),
    "layer": (LayerNorm(), centred),
    "layer_cohere": (LayerNorm(bias=False), centred),
    "layer_olmo": (LayerNorm(gain="none", bias=False), centred),
    "groups": (GroupedLayerNorm(groups=3), in_pieces(centred, 3)),
    "groups_bare": (GroupedLayerNorm(groups=4, gain="none", bias=False), in_pieces(centred, 4)),
    "groups_rms": (GroupedRMSNorm(groups=3), in_pieces(rms, 3)),
    "affine": (Affine(), list),
    "unit": (UnitNorm(), to_length_1),
    "unit_gained": (UnitNorm(gain="weight", bias=True), to_length_1),
    "gained_first": (GainedFirst(), lambda v: rms([x * 0.9 for x in v])),
    "dynamic_tanh": (DynamicTanh(), bounded),
    "gated": (GatedNorm(rank=3), weighed),
    "adapted": (AdaptedNorm(rank=3, activation="tanh"), adapted),
    "delay": (DelayNorm(rank=3, activation="tanh"), by_delay),
    "affine_without_bias": (Affine(bias=False), list),
    "batch": (BatchNorm(), standing),
    "batch_position": (BatchNorm(over="position", gain="none"), standing),
}


@pytest.mark.parametrize("name", CASES)
def test_work_is_what_the_formula_does(name):
    norm, formula = CASES[name]
    for width, vectors in ((12, 1), (24, 5)):
        found = work(norm.cost(width, vectors))
        assert found.dense == found.exact == counted(formula, norm, width, vectors)


@pytest.mark.parametrize(("norm", "formula"), [(RMSNorm(), rms), (LayerNorm(), centred)], ids=["rms", "layer"])
def test_a_norm_of_each_head_has_a_root_for_each_head(norm, formula):
    heads, width, rows = 3, 8, 5
    sizes, part = Attention(heads=heads).sizes(heads * width), QKNorm(norm=norm, over="each_head")
    found = work(part.cost(sizes, Shape(length=rows), rows).inner["query_norm"].tally)
    assert found.dense == counted(in_pieces(formula, heads), norm, heads * width, rows)


def test_every_norm_of_the_package_is_counted():
    assert {type(norm) for norm, _ in CASES.values()} == {
        kind for kind in RMSNorm.kinds.values() if kind.__module__.startswith("anyformer.")
    }


def test_rms_norm_is_cheaper_than_layer_norm():
    """ "LLM training notes", 5.2: one reduction, one broadcast and one addition less, and no bias: 4 n + 2 for 7 n + 2."""
    rms_work, layer_work = (norm.cost(4096, 7).own_work[""].dense for norm in (RMSNorm(), LayerNorm()))
    assert (rms_work, layer_work) == (7 * (4 * 4096 + 2), 7 * (7 * 4096 + 2))


def test_gpt2_pays_for_its_means_and_biases():
    """12 layers with two norms each and one at the end, of 768 features."""
    found = elementwise(architecture("gpt2"), Shape(batch=2, length=5))["norms"]
    assert found.exact == 2 * 5 * 25 * (7 * 768 + 2)
