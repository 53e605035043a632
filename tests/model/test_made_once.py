"""What building a model leaves out, and what is worked out once."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from zoo import DECODERS, ZOO

from anyformer.model.initialise import materialise, on_meta
from anyformer.model.transformer import build
from anyformer.operations import Shape
from anyformer.parts.layers.stack import Stack
from anyformer.plan import Plan

aten = torch.ops.aten
NAME = next(iter(DECODERS))


class Operations(TorchDispatchMode):
    """The operators that run inside."""

    def __init__(self):
        super().__init__()
        self.run = []

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        self.run.append(operator)
        return operator(*args, **(kwargs or {}))


def drawn(make):
    with Operations() as seen:
        made = make()
    return made, [operator for operator in seen.run if operator.overloadpacket in (aten.uniform_, aten.normal_)]


@pytest.mark.parametrize("make", [lambda: nn.Linear(3, 4), lambda: nn.Embedding(5, 2), lambda: nn.Conv1d(2, 3, 1)])
def test_a_module_on_the_meta_device_draws_no_values_and_draws_them_outside(make):
    with on_meta():
        made, operators = drawn(make)
    assert not operators
    assert all(weight.is_meta for weight in made.parameters())
    made, operators = drawn(make)
    assert operators
    assert all(bool((weight != weight.flatten()[0]).any()) for weight in made.parameters() if weight.numel() > 3)


def test_a_model_without_values_is_built_without_drawing():
    assert not drawn(lambda: build(ZOO[NAME], device="meta"))[1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_values_in_one_step_are_those_of_two(dtype):
    at_once = build(ZOO[NAME], dtype=dtype, seed=3)
    later = materialise(build(ZOO[NAME], device="meta"), "cpu", 3).to(dtype)
    for (name, one), (other, two) in zip(at_once.named_parameters(), later.named_parameters(), strict=True):
        assert (name, one.dtype) == (other, dtype)
        torch.testing.assert_close(one, two, rtol=0, atol=0)


@pytest.mark.parametrize("name", [NAME, next(name for name, each in ZOO.items() if each.mtp is not None)])
def test_a_cost_is_worked_out_once_for_each_question(name):
    architecture = ZOO[name]
    shapes, plans = (Shape(), Shape(length=7), Shape(batch=2, length=7)), (Plan(), Plan(precision="bf16"))
    for ask, price, mtp in (
        (type(architecture).cost, Stack.cost, None),
        (type(architecture).folded_cost, Stack.folded_cost, None),
        (type(architecture).trained_cost, Stack.cost, architecture.mtp),
        (type(architecture).folded_trained_cost, Stack.folded_cost, architecture.mtp),
    ):
        for shape in shapes:
            for plan in plans:
                found = ask(architecture, shape, plan)
                assert found == architecture._cost(shape, plan, price, mtp)
                assert ask(architecture.but(), shape, plan) is found
