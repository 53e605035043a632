"""Which objective suits an architecture where nobody names one."""

from __future__ import annotations

import pytest

from anyformer import catalogue
from anyformer.catalogue import architecture
from anyformer.describe import UserError, change_all
from anyformer.describe.docstrings import first_sentence
from anyformer.model import Architecture
from anyformer.objectives import Objective, default_objective
from anyformer.objectives.choice import usual_objective
from anyformer.parts import Head
from anyformer.requirements.needs import needs_token_logits
from anyformer.requirements.usual import USUAL, usual_for
from anyformer.training import default_run


@pytest.mark.parametrize("lineage", sorted({entry.lineage for entry in catalogue.listing()}))
def test_every_entry_has_a_usual_objective(lineage):
    for name in (entry.name for entry in catalogue.listing() if entry.lineage == lineage):
        usual(architecture(name))


def usual(model: Architecture) -> None:
    """Fails where the objective that suits `model` is not the one of its default run."""
    objective = default_objective(model)
    run = default_run(model, (words_of(model),))
    assert run.objective == objective
    assert isinstance(run.data, objective.reads)


def refusal(check, model: Architecture) -> str | None:
    try:
        check(model)
    except ValueError as error:
        return str(error)
    return None


def test_the_usual_objectives_are_the_objectives():
    """What is known of them without torch is what their classes say and require."""
    models = [
        architecture(name, tiny=True)
        for name in ("gpt2", "bert-base-uncased", "t5-small", "vit-base-16", "electra-small", "whisper-tiny")
    ]
    for usual in USUAL:
        objective = Objective.kinds[usual.kind]()
        assert usual.says == first_sentence(type(objective)), usual.kind
        assert usual.two_inputs == objective.traits.two_inputs, usual.kind
        for model in models:
            assert refusal(usual.check, model) == refusal(objective.check, model), usual.kind


def test_reasons_of_objectives_with_as_many_inputs_come_first():
    with pytest.raises(UserError) as refused:
        usual_for(architecture("whisper-large").but(head=None))
    told = [line.strip().partition(":")[0] for line in str(refused.value).splitlines()[1:] if line.startswith("  ")]
    shapes = [each.two_inputs for kind in told for each in USUAL if each.kind == kind]
    assert shapes == sorted(shapes, reverse=True)
    assert len(set(shapes)) == 2


def test_a_head_gives_a_logit_for_each_token_and_no_more():
    model = architecture("gpt2", tiny=True)
    for outputs in (287, 289):
        with pytest.raises(ValueError, match=r"leave head\.outputs out"):
            needs_token_logits("causal", change_all(model, {"head.outputs": outputs, "head.tied": False}))


def words_of(model: Architecture) -> str:
    """Data that every machine has, of what a model reads."""
    if model.embedding.sound is not None:
        return "spoken-digit-strings"
    return "shapes" if model.two_inputs and model.embedding.symbols is None else "digits"


def test_preferences_train_a_reward_model_where_the_model_gives_one_number(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"prompt": "a", "chosen": "b", "rejected": "c"}\n')
    model = architecture("llama-2-7b", tiny=True)
    for head, kind in ((model.head, "dpo"), (Head(outputs=1, pool="last"), "reward"), (Head(outputs=2, pool="last"), None)):
        assert usual_objective(model.but(head=head), (str(path),)) == kind
