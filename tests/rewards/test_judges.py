"""Reward models that grade: the rewards of their objective, bit for bit, of a checkpoint and of Hugging Face's layout."""

from __future__ import annotations

import json

import pytest
import torch
from transformers import AutoModelForSequenceClassification

import anyformer as af
from anyformer import checkpoint
from anyformer.data import Bytes, Preferences, RecordTable
from anyformer.data.vocabulary import make_tokenizer
from anyformer.describe import UserError
from anyformer.model.transformer import build
from anyformer.objectives import RewardObjective, Setting
from anyformer.parts import Head
from anyformer.parts.call.reports import Auxiliary
from anyformer.plan import Plan
from anyformer.rewards import MixtureReward, ModelReward, Query, Response, RewardError
from anyformer.text.specials import SPEAKING, Specials
from anyformer.training.judges import judge_at, judges_at
from objectives.test_preferences import LLAMA, batch_of

PAIRS = [(Query("ab"), Response("cde")), (Query("a"), Response("")), (Query("abcd"), Response("x" * 6))]
PLAN = Plan(precision="fp32", compile="off")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A reward model of no training, saved as that of a run on texts."""
    place = tmp_path_factory.mktemp("judge") / "model"
    model = build(LLAMA.but(head=Head(outputs=1, pool="last")), seed=3).eval()
    tokenizer = make_tokenizer(Bytes(), tuple, tuple, Specials(roles=SPEAKING))
    data = Preferences(paths=("x.jsonl",), tokenizer=Bytes(), margin="by")
    run = {"objective": RewardObjective().plain(), "data": data.plain()}
    checkpoint.save(model, place, tokenizer=tokenizer, facts={"run": json.loads(json.dumps(run))})
    return place


def test_rewards_are_those_of_the_objective_bit_for_bit(place):
    judge = judge_at(str(place), PLAN)
    data = Preferences(paths=("x",))
    grades = ModelReward(path=str(place)).grades(PAIRS, judges_at([str(place)], PLAN))
    for (query, response), grade in zip(PAIRS, grades, strict=True):
        record = {"prompt": query.text, "chosen": response.text, "rejected": response.text + "y"}
        pieces = judge.tokenizer.encode_batch(data.pieces(record, judge.tokenizer))
        batch = batch_of(RecordTable.of(data.types({}), [data.numbers(record, pieces, judge.tokenizer, {})]))
        examples = RewardObjective().examples(batch, Setting(None, len(batch.records[0][0]["chosen"]) + 1))
        with torch.no_grad():
            wanted = RewardObjective().rewards(judge.model, examples, None, Auxiliary(None))
        assert grade.total == pytest.approx(float(wanted[0, 0]), abs=1e-6)
        assert judge([(query, response)]) == [grade.total], "whatever is graded beside it"


def test_several_at_a_time_are_graded_as_one(place):
    reward = ModelReward(path=str(place), batch=3)
    together, alone = (each.grades(PAIRS, judges_at(reward.models, PLAN)) for each in (reward, reward.but(batch=1)))
    assert [grade.total for grade in together] == pytest.approx([grade.total for grade in alone], abs=1e-6)


def test_turns_are_written_by_the_template(place):
    judge = judge_at(str(place), PLAN)
    turns = [{"role": "user", "content": "ab"}]
    said = judge.tokenizer.decode(judge.tokens((Query("", {"prompt": turns}), Response("c"))).tolist(), special=True)
    assert said == "<|user|>ab<|turn_end|><|assistant|>c<|turn_end|>"


def test_a_model_of_another_layout_grades_as_transformers_does(place, tmp_path):
    model, tokenizer = af.load(place)
    af.export(model, tmp_path / "out", tokenizer=tokenizer)
    judge = judge_at(str(tmp_path / "out"), PLAN)
    theirs = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out", attn_implementation="eager").eval()
    for pair in PAIRS[:2]:
        tokens = torch.from_numpy(judge.tokens(pair).astype("int64"))[None]
        with torch.no_grad():
            assert judge([pair]) == pytest.approx([float(theirs(tokens).logits)], rel=1e-4, abs=1e-5)


def test_a_model_stands_within_other_rewards(place):
    inner = ModelReward(path=str(place))
    reward = MixtureReward.parse(
        {"parts": {"liked": {"reward": {"kind": "extracted", "pattern": "x+", "of": inner.plain()}, "weight": 2.0}}}
    )
    assert reward.models == (str(place),)
    grades = reward.grades(PAIRS, judges_at(reward.models, PLAN))
    assert [grade.parts["liked.extracted"] for grade in grades] == [0, 0, 1]
    assert grades[2].total == 2 * judge_at(str(place), PLAN)([PAIRS[2]])[0]


def test_what_is_no_reward_model_is_refused(place, tmp_path):
    checkpoint.save(build(LLAMA, seed=1), tmp_path / "plain")
    with pytest.raises(UserError, match="is no reward model"):
        judge_at(str(tmp_path / "plain"), PLAN)
    with pytest.raises(RewardError, match="was not read"):
        ModelReward(path=str(place)).grade(*PAIRS[0])
