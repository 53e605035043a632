"""Every family against transformers: logits, padding, decoding, gradients, and the way back, exactly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from anyformer import huggingface
from anyformer.huggingface.canonical import canonical
from anyformer.huggingface.declared import shapes_of
from anyformer.huggingface.files import Stored
from anyformer.huggingface.rules import rules
from anyformer.model.transformer import Transformer
from anyformer.testing import families
from covering import cover, kinds
from huggingface.cases import CASES
from huggingface.nearness import CACHED, GRADIENTS, LOGITS, PADDED
from huggingface.parity import AUTO, Pair, decodes, family_of, inputs, pads, pair, their_logits

ARCHITECTURES = {
    str(case): huggingface.read_architecture(huggingface.Config({**case.config, "model_type": case.model_type}))[0]
    for case in CASES
}
DEEP = cover(ARCHITECTURES, kinds)
"""Cases that together have every kind of part: in each run these decode, learn, and are loaded by transformers again."""
WHOLE = DEEP | cover(ARCHITECTURES) | frozenset({case.model_type: str(case) for case in reversed(CASES)}.values())
"""With them one case of each model type, and of each mechanism: what is left out and the files of an export are asked too.

Of the others the logits are, and the configuration; `make test-slow` asks the rest.
"""


@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_computes_what_transformers_computes(case, tmp_path):
    both = pair(case)
    saved = json.loads((both.directory / "config.json").read_text())
    families.configuration_there_and_back(saved)
    families.unknown_key_is_refused_by_name(saved)
    logits(both)
    if str(case) in WHOLE:
        keys_that_are_absent_mean_what_transformers_takes_them_for(both)
        an_export_holds_the_same_weights(both, tmp_path / "exported")
    if str(case) in DEEP:
        it_decodes_and_learns(both)
        an_export_is_loaded_by_transformers_and_computes_the_same(both, tmp_path / "exported")


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in CASES if str(case) not in DEEP], ids=str)
def test_the_others_decode_learn_and_are_exported(case, tmp_path):
    both = pair(case)
    if str(case) not in WHOLE:
        keys_that_are_absent_mean_what_transformers_takes_them_for(both)
    it_decodes_and_learns(both)
    an_export_holds_the_same_weights(both, tmp_path / "exported")
    an_export_is_loaded_by_transformers_and_computes_the_same(both, tmp_path / "exported")


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


def logits(both: Pair) -> None:
    """Plain, and where transformers masks the padding, padded."""
    LOGITS.check(both)
    if pads(both):
        PADDED.check(both)


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
