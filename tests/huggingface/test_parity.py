"""Every family against transformers: logits, padding, decoding, gradients, and the way back, exactly."""

from __future__ import annotations

import json

import pytest
import torch

from anyformer import huggingface
from anyformer.huggingface.files import Stored
from anyformer.model import Transformer
from anyformer.testing import families
from huggingface.cases import CASES
from huggingface.parity import (
    AUTO,
    cached_gap,
    decodes,
    gradient_gap,
    inputs,
    logit_gap,
    padded_gap,
    pads,
    pair,
    their_logits,
)

every = pytest.mark.parametrize("case", CASES, ids=str)


@every
def test_the_configuration_there_and_back(case):
    families.configuration_there_and_back(json.loads((pair(case).directory / "config.json").read_text()))


@every
def test_keys_that_are_absent_mean_what_transformers_takes_them_for(case):
    """transformers saves every key; the case as it is written leaves most out."""
    both = pair(case)
    whole = json.loads((both.directory / "config.json").read_text())
    keys = case.config | {name: whole[name] for name in ("model_type", "architectures")}
    architecture, _ = huggingface.read_architecture(huggingface.Config(keys))
    architecture = architecture.but(mtp=None)  # of which transformers computes and saves nothing
    with torch.device("meta"):
        again = Transformer(architecture).eval()
    again.load_state_dict(both.ours.state_dict(), assign=True)
    x = inputs(both)
    with torch.no_grad():
        assert torch.equal(again(*x), both.ours(*x))


@every
def test_logits(case):
    assert logit_gap(pair(case)) <= case.logits


@every
def test_logits_of_a_padded_batch(case):
    both = pair(case)
    if not pads(both):
        pytest.skip(case.unpadded or "transformers masks no padding of sources that are not tokens")
    assert padded_gap(both) <= case.logits


@every
def test_logits_token_by_token(case):
    both = pair(case)
    if not decodes(both):
        pytest.skip("does not decode")
    assert cached_gap(both) <= case.logits


@every
def test_gradients(case):
    assert gradient_gap(pair(case)) <= case.gradients


@every
def test_export_is_loaded_by_transformers_and_computes_the_same(case, tmp_path):
    both = pair(case)
    target = tmp_path / "exported"
    family = huggingface.export(both.ours, target, model_type=case.model_type)
    again = AUTO[case.task].from_pretrained(target, attn_implementation=case.kernel or family.kernel).eval()
    for parameter in again.parameters():
        # The last bits of a product may depend on where in a mapped file its matrix begins.
        parameter.data = parameter.data.clone()
    x = inputs(both)
    with torch.no_grad():
        before, after = (their_logits(type(both)(case, model, both.ours, target), x[0], target=x[1] if len(x) > 1 else None)
                         for model in (both.theirs, again))  # fmt: skip
    assert torch.equal(before, after)
    ours, theirs = Stored(target), Stored(both.directory)
    for name in ours.files:
        assert torch.equal(ours.tensor(name), theirs.tensor(name)), name


@every
def test_an_unknown_key_is_refused_by_name(case):
    families.unknown_key_is_refused_by_name(json.loads((pair(case).directory / "config.json").read_text()))
