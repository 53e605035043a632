"""A table of the experts of each token is of whole numbers, and stays so wherever weights change their format."""

from __future__ import annotations

import pytest
import torch
from zoo import ZOO

import anyformer as af
from anyformer.describe import InputError, change_all
from anyformer.generation import generating
from anyformer.parts import TokenTable
from anyformer.quantising.formats import FORMATS
from anyformer.quantising.model import quantised
from anyformer.training.adapting import rest
from anyformer.transforming import transform
from anyformer.tuning import Lora, Tuning

NAME = "experts_token_table_scores"
TOKENS = torch.tensor([[1, 5, 2, 8], [3, 3, 7, 0]])


def tables(model):
    return [each for path, each in model.named_parameters() if path.endswith("router.table")]


def filled():
    """A model whose tables name the last experts."""
    model = af.build(ZOO[NAME], seed=0).eval()
    with torch.no_grad():
        for each in tables(model):
            each.copy_((5 - torch.arange(each.shape[1])).expand_as(each))
    return model


def in_adapters():
    model = filled()
    rest(model, Tuning(adapter=Lora(rank=2), base="bf16"))
    return model


CHANGED = {"generating": lambda: generating(filled()), "adapters": in_adapters} | {
    name: (lambda format=format: quantised(filled(), format)[0]) for name, format in FORMATS.items()
}


@pytest.mark.parametrize("name", CHANGED)
def test_a_table_keeps_its_numbers_in_other_formats(name):
    expected, model = tables(filled()), CHANGED[name]()
    for table, before in zip(tables(model), expected, strict=True):
        assert torch.equal(table, before)
        assert table.dtype == torch.int64
    assert model(TOKENS).isfinite().all()


def test_a_table_that_a_transformation_adds_is_of_whole_numbers():
    with_table = ZOO[NAME]
    without = change_all(with_table, {path: {"kind": "top_k"} for path in paths(with_table)})
    made, _ = transform(af.build(without, seed=0), with_table)
    assert [table.dtype for table in tables(made)] == [torch.int64] * len(tables(filled()))
    assert made(TOKENS).isfinite().all()


def test_a_token_beyond_the_table_is_told():
    short = change_all(ZOO[NAME], {path: TokenTable(vocab=6).plain() for path in paths(ZOO[NAME])})
    with pytest.raises(InputError, match=r"tokens with experts of their own run from 0 to 8, and the table has rows 0 to 5"):
        af.build(short)(TOKENS)


def paths(architecture):
    """Where the choices by a table stand."""
    return [
        f"decoder.variants.{variant}.steps.{i}.branches.{name}.sublayer.router.choice"
        for variant, block in architecture.decoder.variants.items()
        for i, step in enumerate(block.steps)
        for name, branch in step.branches.items()
        if branch.sublayer.kind == "experts"
    ]
