"""Activations: every one of ours that is one of transformers' has its name there, and every name means the same function."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional as F
from transformers.activations import ACT2FN

from anyformer.huggingface.words.activations import ACTIVATIONS, known, named
from anyformer.parts import FeedForward

X = torch.linspace(-6, 6, 101, dtype=torch.float64)
NOT_THERE = {"swish": "learns its factor"}
"""Ours that transformers has no function for, though at the start it may equal one."""


def ours() -> list[str]:
    """The names that a description may have, as its error lists them."""
    field = FeedForward.model_json_schema()["properties"]["activation"]
    return list(field["enum"])


def value(name: str) -> torch.Tensor:
    """An activation of ours at X, read off a network of one feature whose matrices are 1."""
    network = FeedForward(width=1, activation=name, gated=False).build(1, _plan(), "x").double()
    for parameter_name, parameter in network.named_parameters():
        if parameter_name.endswith("weight"):
            torch.nn.init.ones_(parameter)
        else:
            torch.nn.init.constant_(
                parameter, {"positive": 0.2025, "negative": -1.0502, "slope": 0.25}.get(parameter_name.split(".")[-1], 1.0)
            )
    with torch.no_grad():
        return network(X[None, :, None], SimpleNamespace(noise=None, see=lambda name, value: value), None)[0, :, 0]


def _plan():
    from anyformer.plan import Plan

    return Plan()


def theirs(name: str) -> torch.Tensor | None:
    """A function of transformers at X; None of one that is no function of a number."""
    try:
        made = ACT2FN[name]
        with torch.no_grad():
            return torch.as_tensor(made(X), dtype=torch.float64)
    except (TypeError, RuntimeError, ImportError, ValueError):
        return None


@pytest.mark.parametrize("name", [name for name in ACTIVATIONS if name != "xielu"])
def test_a_name_of_theirs_means_the_same_function(name):
    torch.testing.assert_close(value(known(name)), theirs(name), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", [name for name in ours() if name not in NOT_THERE])
def test_every_activation_of_ours_that_they_have_is_mapped(name):
    if named_or_none(name) is not None:
        return
    mine = value(name)
    same = [each for each in ACT2FN if (found := theirs(each)) is not None and found.shape == mine.shape and close(mine, found)]
    assert same == [], f"say in huggingface/words/activations.py that {name} is {same}"


def named_or_none(name: str) -> str | None:
    try:
        return named(name)
    except ValueError:
        return None


def close(mine: torch.Tensor, other: torch.Tensor) -> bool:
    return bool(torch.allclose(mine, other, rtol=0, atol=1e-6))


def test_the_test_would_notice():
    assert close(value("silu"), F.silu(X))
    assert not close(value("silu"), value("quick_gelu"))
