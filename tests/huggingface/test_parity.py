"""Every family against transformers: logits, padding, decoding, gradients, and the way back, exactly."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from anyformer import huggingface
from anyformer.huggingface.canonical import canonical
from anyformer.huggingface.convert import tensors_of
from anyformer.huggingface.declared import shapes_of
from anyformer.huggingface.files import Stored
from anyformer.huggingface.rules import rules
from anyformer.model.transformer import Transformer
from anyformer.testing import families
from covering import cover, kinds, mechanisms
from huggingface.case import Case
from huggingface.cases import CASES
from huggingface.nearness import CACHED, GRADIENTS, LOGITS, PADDED
from huggingface.parity import AUTO, Pair, class_of, decodes, family_of, inputs, pads, pair, their_logits

NAMED = {str(case): case for case in CASES}
ARCHITECTURES = {
    name: huggingface.read_architecture(huggingface.Config({**case.config, "model_type": case.model_type}))[0]
    for name, case in NAMED.items()
}
PLAIN = {case.model_type: case for case in reversed(CASES)}
"""The first case of each model type."""


def kinds_and_file(case: Case) -> frozenset[Any]:
    """Kinds of parts, and the file of the family."""
    return kinds(ARCHITECTURES[str(case)]) | {(family_of(case).home,)}


def whatever_is_read(case: Case) -> frozenset[Any]:
    """Kinds of parts, their moved fields with what they hold, the model type, and each key that the file of its family reads:
    of a later case of a type those that the first has not, or with another value."""
    first = PLAIN[case.model_type].config if case is not PLAIN[case.model_type] else {}
    keys = {key for key, value in case.config.items() if key not in first or first[key] != value}
    return mechanisms(ARCHITECTURES[str(case)]) | {(case.model_type,)} | {(family_of(case).home, "key", key) for key in keys}


DEEP = cover(ARCHITECTURES, kinds)
"""Cases that together have every kind of part: in each run these decode, learn, and are loaded by transformers again."""
WHOLE = DEEP | cover(NAMED, kinds_and_file)
"""With them each file of `families`: padding, keys that are unknown or left out and the files of an export are asked too."""
FORWARD = WHOLE | cover(NAMED, whatever_is_read)
"""With them each model type, each mechanism, and each key in each file of `families`: the logits are asked, and the rules of
weights both ways.

Of the others in each run the configuration alone is; `make test-slow` asks everything of all. Every cover is greedy: the case
that has the most of what is missing is the next, and of several the first in `CASES`.
"""
REST = [case for case in CASES if str(case) not in FORWARD]


@pytest.mark.parametrize("case", [case for case in CASES if str(case) in FORWARD], ids=str)
def test_it_computes_what_transformers_computes(case, tmp_path):
    both = pair(case)
    saved = json.loads((both.directory / "config.json").read_text())
    families.configuration_there_and_back(saved)
    LOGITS.check(both)
    its_weights_are_those_that_would_be_written(both)
    if str(case) in WHOLE:
        families.unknown_key_is_refused_by_name(saved)
        padding_and_absent_keys(both)
        an_export_holds_the_same_weights(both, tmp_path / "exported")
    if str(case) in DEEP:
        it_decodes_and_learns(both)
        an_export_is_loaded_by_transformers_and_computes_the_same(both, tmp_path / "exported")


@pytest.mark.parametrize("case", REST, ids=str)
def test_the_configuration_of_the_others_is_written_and_read_again(case):
    config = transformers.AutoConfig.for_model(case.model_type, **deepcopy(case.config))
    config.architectures = [class_of(case)]
    families.configuration_there_and_back(json.loads(config.to_json_string()))


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in CASES if str(case) not in DEEP], ids=str)
def test_the_others_compute_decode_learn_and_are_exported(case, tmp_path):
    both = pair(case)
    saved = json.loads((both.directory / "config.json").read_text())
    if case in REST:
        families.configuration_there_and_back(saved)
        LOGITS.check(both)
        its_weights_are_those_that_would_be_written(both)
    if str(case) not in WHOLE:
        families.unknown_key_is_refused_by_name(saved)
        padding_and_absent_keys(both)
    it_decodes_and_learns(both)
    an_export_holds_the_same_weights(both, tmp_path / "exported")
    an_export_is_loaded_by_transformers_and_computes_the_same(both, tmp_path / "exported")


def padding_and_absent_keys(both: Pair) -> None:
    """Padding where transformers masks it."""
    if pads(both):
        PADDED.check(both)
    keys_that_are_absent_mean_what_transformers_takes_them_for(both)


def it_decodes_and_learns(both: Pair) -> None:
    if decodes(both):
        CACHED.check(both)
    GRADIENTS.check(both)


def keys_that_are_absent_mean_what_transformers_takes_them_for(both: Pair) -> None:
    """transformers saves every key; the case as it is written leaves most out."""
    saved = json.loads((both.directory / "config.json").read_text())
    keys = both.case.config | {name: saved[name] for name in ("model_type", "architectures")}
    architecture, _ = huggingface.read_architecture(huggingface.Config(keys))
    architecture = architecture.but(mtp=None)  # of which transformers computes and saves nothing
    if canonical(architecture) == canonical(both.ours.architecture):
        return
    with torch.device("meta"):
        again = Transformer(architecture).eval()
    again.load_state_dict(both.ours.state_dict(), assign=True)
    x = inputs(both)
    with torch.no_grad():
        assert torch.equal(again(*x), both.ours(*x))


def its_weights_are_those_that_would_be_written(both: Pair) -> None:
    """Every rule undoes what it does where it reads; the files themselves are asked of `WHOLE`."""
    architecture, stored = both.ours.architecture, Stored(both.directory)
    of_weights = rules(family_of(both.case).names_of(architecture), shapes_of(architecture))
    idle = {name for rule in of_weights for name in rule.idle}
    for name, tensor in tensors_of(of_weights, dict(both.ours.named_parameters())):
        if name in stored.files:  # transformers may save under a newer one
            assert not tensor.any() if name in idle else torch.equal(tensor, stored.kept(name)), name


def an_export_holds_the_same_weights(both: Pair, target: Path) -> None:
    huggingface.export(both.ours, target, model_type=both.case.model_type)
    ours, theirs, idle = Stored(target), Stored(both.directory), idle_names(both)
    for name in ours.files:
        own = ours.kept(name)
        assert not own.any() if name in idle else torch.equal(own, theirs.kept(name)), name


def an_export_is_loaded_by_transformers_and_computes_the_same(both: Pair, exported: Path) -> None:
    case = both.case
    again = AUTO[case.task].from_pretrained(exported, attn_implementation=case.kernel or family_of(case).kernel).eval()
    for parameter in again.parameters():
        # The last bits of a product may depend on where in a mapped file its matrix begins.
        parameter.data = parameter.data.clone()
    x = inputs(both)
    with torch.no_grad():
        before, after = (their_logits(type(both)(case, model, both.ours, exported), x[0], target=x[1] if len(x) > 1 else None)
                         for model in (both.theirs, again))  # fmt: skip
    assert torch.equal(before, after)


def idle_names(both: Pair) -> set[str]:
    """Tensors that transformers has, and computes nothing with."""
    architecture = both.ours.architecture
    of_weights = rules(family_of(both.case).names_of(architecture), shapes_of(architecture))
    return {name for rule in of_weights for name in rule.idle}
