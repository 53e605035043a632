"""What a class has no field for, and has inside one of its fields: the refusal says how it is given."""

from __future__ import annotations

from typing import Any

import pytest

from anyformer.describe import DescriptionError
from anyformer.describe.inside import inside
from anyformer.parts import ALiBi, Attention, Branch, Projection, QKNorm, RMSNorm, Rotary, Score, Softmax
from anyformer.training import Run

ALIBI = Score(terms=ALiBi())


@pytest.mark.parametrize(
    ("owner", "given", "said", "right"),
    [
        (Attention, {"score_bias": ALiBi()}, "score.terms.score_bias, in Python score=Score(terms=ALiBi(...))", ALIBI),
        (Score, {"bias": ALiBi()}, "terms.score_bias, in Python terms=ALiBi(...)", None),
        (Attention, {"score_bias": {"kind": "alibi"}}, "score.terms.score_bias, in Python score=Score(terms=...)", None),
        (Attention, {"rotary": Rotary()}, "place.rotary, in Python place=Rotary(...)", None),
        (Attention, {"sink": "head"}, "weigh.sink, in Python weigh=Softmax(sink=...)", Softmax(sink="head")),
        (Attention, {"qk_norm": RMSNorm()}, "project.adjust.qk_norm, in Python project=Projection(adjust=QKNorm(...))", None),
    ],
)  # fmt: skip
def test_the_refusal_says_where_it_lives(owner: Any, given: dict[str, Any], said: str, right: Any) -> None:
    heads = {"heads": 4} if owner is Attention else {}
    with pytest.raises(DescriptionError) as refused:
        owner(**heads, **given)
    assert str(refused.value).endswith(f": in a file it is {said}")
    if right is not None:  # what is said is taken
        field = said.partition(".")[0]
        assert getattr(Attention(heads=4, **{field: right}), field) == right


def test_what_is_inside_by_that_way_is_taken() -> None:
    assert Attention(heads=4, place=Rotary()).place["rotary"] == Rotary()
    assert Attention(heads=4, project=Projection(adjust=QKNorm(norm=RMSNorm()))).project.adjust["qk_norm"] == QKNorm(
        norm=RMSNorm()
    )


def test_nothing_is_said_of_what_is_nowhere() -> None:
    assert inside(Attention, "scael") is None
    assert inside(Branch, "heads") is None, "which of many mixers is meant is not known"
    with pytest.raises(DescriptionError, match="did you mean 'kv_heads'"):
        Attention(heads=4, kv_head=2)
    found = inside(Run, "decoder")
    assert found is not None
    assert found.keys == ("architecture", "decoder")
