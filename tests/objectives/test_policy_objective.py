"""The policy objective: what its examples are, what they do not depend on, what it says, and what it refuses."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import replace
from typing import Any

import pytest
import torch
from rich.console import Console
from zoo import ZOO

from anyformer import checkpoint
from anyformer.catalogue import architecture
from anyformer.data import IGNORED, Bytes, Preferences
from anyformer.data.vocabulary import make_tokenizer
from anyformer.describe import DescriptionError, UserError, change_all
from anyformer.evaluation.measure import measure, task_of
from anyformer.evaluation.subject import open_subject
from anyformer.generation.rollouts import Rollouts, SampledAnswers
from anyformer.model.transformer import build
from anyformer.objectives import PolicyObjective, RewardObjective
from anyformer.objectives.answer_rows import prompts_of
from anyformer.objectives.policy import PolicyLoss
from anyformer.objectives.policy.recipes import RECIPES, dapo, dr_grpo
from anyformer.objectives.policy_names import LOSSES
from anyformer.parts import Head
from anyformer.rewards import Query, Response
from anyformer.testing import runs
from anyformer.text.specials import SPEAKING, Specials
from anyformer.training import Run, train
from anyformer.training.journal import read_metrics
from anyformer.training.judges import judge_at
from anyformer.training.priced import flops_of, step_of
from anyformer.training.summary import update_figures

SORTING = {"kind": "task", "task": {"kind": "sorting", "numbers": 4}, "shortest": 6, "longest": 12}
SHARE = {"kind": "task", "counts": "share"}
CHATS = [{"prompt": f"{n}?", "answer": f"{n % 3}."} for n in range(60)]


def described(objective: dict[str, Any] | None = None, **fields: Any) -> Run:
    model = change_all(architecture("llama-2-7b", tiny=True), {"embedding.vocab": 12})
    own = {"kind": "policy", "group": 4, "reward": SHARE, **(objective or {})}
    plain = {"steps": 5, "batch": 4, "length": 12, "seed": 7, "data": SORTING, "architecture": model.plain(), **fields}
    return Run.parse({**plain, "objective": own})


def pieces(run: Run):
    trainer = runs.trainer_of(run)
    return trainer, trainer.micro_batches(0).pieces


@pytest.fixture(scope="module")
def first():
    """A trainer with dropout described, and the examples of its first update, of a cut distribution."""
    run = described({"rollouts": {"top_p": 0.7, "temperature": 1.3}})
    dropout = {f"architecture.decoder.layer.{name}.dropout": 0.5 for name in ("attention", "feedforward")}
    trainer, (examples,) = pieces(change_all(run, dropout))
    return trainer, examples


def test_answers_stand_behind_their_prompts(first):
    trainer, examples = first
    prompts = prompts_of(trainer.fetched(0))
    assert len(examples.tokens) == 16
    assert examples.rows.tolist() == [0, 1, 2, 3]
    for row in range(16):
        prompt = prompts[row // 4]
        start = len(prompt.tokens)
        targets = examples.targets[row].tolist()
        answer = [target for target in targets if target != IGNORED]
        assert targets[start - 1 : start - 1 + len(prompt.answer)] == answer
        assert examples.tokens[row, : start + len(answer) - 1].tolist() == [*prompt.tokens, *answer[:-1]]
        assert examples.padding[row].tolist() == [at >= start + len(answer) - 1 for at in range(12)]
        assert (examples.sampled[row] != 0).sum() <= len(answer)


def test_an_update_finds_the_probabilities_that_were_sampled_from(first):
    """Though the architecture describes dropout, and tokens that top-p cut away have none."""
    trainer, examples = first
    _, told = trainer.passes.add_gradients(trainer.micro_batches(0))
    assert float(told.largest["difference"]) < 2e-6
    assert float(told.sums["clipped"]) == 0
    assert float(told.sums["ratio"] / told.sums["tokens"]) == pytest.approx(1, abs=1e-6)
    without = trainer.passes.add_gradients(replace(trainer.micro_batches(0), pieces=[replace(examples, kept=None)]))[1]
    assert float(without.largest["difference"]) > 0.01


ROUTED = "**.router.chosen"


def routed(**rollouts) -> Run:
    model = change_all(ZOO["experts"], {"embedding.vocab": 12})
    return described({"rollouts": rollouts}, architecture=model.plain())


def test_an_update_sends_tokens_to_the_experts_that_sampled_them():
    """By weights that have changed since, which would send them to others."""
    trainer, (examples,) = pieces(routed())
    batch = trainer.micro_batches(0)
    for weight in trainer.model.parameters():
        weight.data += torch.randn(weight.shape, generator=torch.Generator().manual_seed(2)) / 2
    read = ~examples.padding
    with trainer.model.watch(ROUTED) as seen:
        trainer.passes.add_gradients(batch)
    chosen = torch.cat([seen[path] for path in seen], -1)
    assert torch.equal(chosen[read], examples.chosen.long()[read])
    with trainer.model.watch(ROUTED) as own:
        trainer.model(examples.tokens)
    assert not torch.equal(torch.cat([own[path] for path in own], -1)[read], chosen[read])
    assert pieces(routed(replay=False))[1][0].chosen is None
    assert pieces(described())[1][0].chosen is None, "without experts there is nothing to note"


def test_an_update_uses_its_answers_as_often_as_it_is_told():
    """As so many steps on the same answers do, that are made once; what is told of sampling is of the first."""
    twice, once = (runs.trainer_of(described({"uses": uses, "loss": "ppo"})) for uses in (2, 1))
    batch = once.micro_batches(0)
    outcome = twice.updates.update(twice.micro_batches(0), 0.02)
    steps = [once.updates.update(batch, 0.02) for _ in range(2)]
    assert outcome.loss == steps[0].loss != steps[1].loss
    assert float(outcome.largest["difference"]) == float(steps[0].largest["difference"]) < 2e-6
    assert float(steps[1].largest["difference"]) > 1e-3
    assert float(outcome.sums["clipped"]) == float(steps[0].sums["clipped"] + steps[1].sums["clipped"]) > 0
    assert outcome.sums["answers"] == steps[0].sums["answers"]
    assert flops_of(twice.run) == 2 * flops_of(once.run)
    priced = (update_figures(step_of(each.run), each.run.piece, 1, each.run.plan)[0] for each in (twice, once))
    assert [flops.measured for flops in priced] == [flops_of(each.run) for each in (twice, once)]
    models = [[trainer.model, *trainer.partners.values()] for trainer in (twice, once)]
    for own, other in zip(*models, strict=True):
        for name, weight in own.state_dict().items():
            assert torch.equal(weight, other.state_dict()[name]), name


def test_a_use_that_is_not_finite_is_the_last(monkeypatch):
    trainer = runs.trainer_of(described({"uses": 3}))
    batch, updates, made = trainer.micro_batches(0), trainer.updates, []

    def add(given, scale=None):
        made.append(given)
        if len(made) == 2:
            next(trainer.model.parameters()).grad = torch.full_like(next(trainer.model.parameters()), torch.nan)
        return trainer.passes.add_gradients(given, scale)

    wrapped = replace(updates, passes=type("Passes", (), {"add_gradients": staticmethod(add)})())
    outcome = wrapped.update(batch, 0.01)
    assert outcome.finite
    assert len(made) == 2
    alone = runs.trainer_of(described())
    alone.updates.update(alone.micro_batches(0), 0.01)
    for own, other in zip(trainer.model.parameters(), alone.model.parameters(), strict=True):
        assert torch.equal(own, other)


def test_advantages_compare_the_members_of_a_group(first):
    _, examples = first
    means = examples.advantages.amax(1).view(4, 4).where(examples.advantages.view(4, -1).abs().amax(1, keepdim=True) > 0, 0)
    assert (examples.advantages[examples.targets == IGNORED] == 0).all()
    assert means.isfinite().all()
    each = examples.advantages.gather(1, (examples.targets != IGNORED).byte().argmax(1, keepdim=True)).view(4, 4)
    torch.testing.assert_close(each.sum(1), torch.zeros(4), atol=1e-4, rtol=0)
    assert each.abs().max() > 0


@pytest.mark.parametrize("loss", ["grpo", "dapo"])
def test_the_loss_does_not_depend_on_the_cut(loss):
    runs.loss_does_not_depend_on_the_cut(described({"loss": loss}))


def test_samples_are_those_of_any_batch():
    """Of the same weights: by the number of the sample, whatever is sampled beside it."""
    _, (whole,) = pieces(described())
    _, parts = pieces(described(accumulation=2))
    assert torch.equal(torch.cat([part.targets for part in parts]), whole.targets)
    small = runs.trainer_of(described(batch=2))
    later = small.micro_batches(1).pieces[0]
    assert torch.equal(later.targets, whole.targets[8:])
    assert not torch.equal(pieces(described(seed=8))[1][0].targets, whole.targets)


def test_a_run_tells_what_it_samples_and_what_to_do_where_nothing_moves(tmp_path):
    said = Console(record=True, width=1000, file=open(tmp_path / "said", "w"))  # noqa: SIM115
    hopeless = described({"reward": "task"}, data={"kind": "task", "task": {"kind": "copying", "letters": 8}, "longest": 12})
    train(runs.short(hopeless).but(steps=2), tmp_path / "run", console=said)
    assert "nothing is learnt of it: their mean reward is 0, alike in every group of 4" in said.export_text()
    rows = read_metrics(tmp_path / "run")
    figures = next(row for row in rows if row["kind"] == "train")["objective"]
    assert {"reward", "reward of whole", "reward of share", "length", "truncated", "moving", "varied", "clipped", "ratio",
            "entropy", "difference", "sampling_seconds"} <= set(figures)  # fmt: skip
    assert figures["length"] == 6
    assert figures["moving"] == figures["varied"] == 0
    held = [row for row in rows if row["kind"] == "validation"][-1]
    assert held["loss"] == -held["metrics"]["reward"]
    assert {"reward", "exact", "length", "truncated"} == set(held["metrics"])


def test_a_reference_is_the_model_as_it_began(tmp_path):
    run = described({"loss": "grpo"}, tuning={"adapter": {"kind": "lora", "rank": 2, "dropout": 0.3}})
    trainer = runs.trainer_of(run)
    (examples,) = trainer.micro_batches(0).pieces
    torch.testing.assert_close(examples.reference, examples.sampled, atol=2e-6, rtol=0)


@pytest.fixture
def judge(tmp_path):
    """A reward model of no training over texts of bytes."""
    model = build(architecture("llama-2-7b", tiny=True).but(head=Head(outputs=1, pool="last")), seed=3).eval()
    tokenizer = make_tokenizer(Bytes(), tuple, tuple, Specials(roles=SPEAKING))
    pairs = Preferences(paths=("x.jsonl",), tokenizer=Bytes())
    facts = {"run": json.loads(json.dumps({"objective": RewardObjective().plain(), "data": pairs.plain()}))}
    checkpoint.save(model, tmp_path / "judge", tokenizer=tokenizer, facts=facts)
    return tmp_path / "judge"


def test_a_reward_model_grades_the_answers_of_a_run(tmp_path, judge):
    """And those of an evaluation of it, in another process of the tools."""
    rows = [{"prompt": f"{n}?", "completion": f" {n % 3}."} for n in range(60)]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = {"kind": "completions", "paths": [str(tmp_path / "texts.jsonl")], "tokenizer": {"kind": "bytes"}, "validation": 0.2}
    model = architecture("gpt2", tiny=True)
    run = Run.parse(
        {
            "steps": 2, "batch": 4, "length": 32, "data": data, "architecture": model.plain(), "plan": {"precision": "fp32"},
            "objective": {
                "kind": "policy", "group": 2, "reward": {"kind": "model", "path": str(judge)}, "rollouts": {"tokens": 4}
            },
        }
    )  # fmt: skip
    trainer = runs.trainer_of(run)
    (examples,) = trainer.micro_batches(0).pieces
    prompt = prompts_of(trainer.fetched(0))[0]
    answer = [token for token in examples.targets[0].tolist() if token != IGNORED]
    samples = trainer.samples
    response = Response.of(answer, samples.tokenizer, ended=False)
    (wanted,) = judge_at(str(judge), run.plan)([(Query(samples.tokenizer.decode(prompt.tokens)), response)])
    given = samples._grades([prompt], [answer], SampledAnswers(torch.tensor([answer]), torch.zeros(1, 4), None, torch.ones(1)))
    assert [grade.total for grade in given] == [wanted]
    step, alone = step_of(run), replace(step_of(run), held=())
    weights = 4 * sum(weight.numel() for weight in samples.judges[str(judge)].model.parameters())
    assert step.peak(run.piece, run.plan).total - alone.peak(run.piece, run.plan).total == weights == samples.held
    assert trainer.held() - replace(trainer, samples=None).held() == weights
    all_held_out = {"evaluation.final_tokens": 4096}
    train(change_all(runs.short(run), all_held_out).but(steps=2), tmp_path / "run", console=Console(quiet=True))
    held = [row for row in read_metrics(tmp_path / "run") if row["kind"] == "validation"][-1]
    found = measure(task_of(open_subject(tmp_path / "run"), ()))
    assert found.evaluated.metrics["reward"] == pytest.approx(held["metrics"]["reward"], abs=1e-5)
    assert held["metrics"]["reward"] != 0


def test_what_is_no_reward_model_is_refused_before_any_work(tmp_path):
    model = build(architecture("llama-2-7b", tiny=True), seed=3)
    checkpoint.save(model, tmp_path / "answers", tokenizer=None, facts={})
    for path, said in ((tmp_path / "gone", "gone"), (tmp_path / "answers", "answers: is no reward model")):
        reward = {"kind": "model", "path": str(path)}
        with pytest.raises(UserError, match=said):
            train(described({"reward": reward}), tmp_path / "run", console=Console(quiet=True))
        assert not (tmp_path / "run").exists()


def test_answers_to_chats_end_with_their_turn(tmp_path):
    (tmp_path / "chats.jsonl").write_text("".join(json.dumps(row) + "\n" for row in CHATS))
    data = {"kind": "prompts", "paths": [str(tmp_path / "chats.jsonl")], "tokenizer": {"kind": "bytes"}, "validation": 0.2}
    model = architecture("gpt2", tiny=True)
    run = Run.parse(
        {
            "steps": 2, "batch": 4, "length": 32, "data": data, "architecture": model.plain(),
            "objective": {"kind": "policy", "group": 2, "reward": "exact_match", "rollouts": {"tokens": 4}},
        }
    )  # fmt: skip
    trainer = runs.trainer_of(run)
    prompts = prompts_of(trainer.fetched(0))
    end = prompts[0].answer[-1]
    assert end in trainer.samples.ends
    (examples,) = trainer.micro_batches(0).pieces
    for row in examples.targets.tolist():
        answer = [token for token in row if token != IGNORED]
        assert len(answer) == 4 or (answer[-1] in trainer.samples.ends)
        assert all(token not in trainer.samples.ends for token in answer[:-1])
    right = trainer.samples._query(prompts[0])
    assert right.record["answer"] in {"0.", "1.", "2."}
    assert right.text.find("?") > 0


def test_every_recipe_has_a_name_but_the_one_that_needs_a_length():
    assert len(LOSSES) == len(RECIPES) - 1
    assert PolicyObjective.parse({"kind": "policy", "loss": "dapo"}).loss == dapo()
    assert PolicyObjective.parse({"kind": "policy", "loss": {"ratio": {"kind": "sequence"}}}).loss.ratio.kind == "sequence"
    assert PolicyObjective.parse(PolicyObjective(loss=dapo()).plain()).loss == dapo()
    with pytest.raises(DescriptionError, match="most tokens of an answer: give it as the table") as said:
        described({"loss": "dr_grpo"})
    written = re.search(r"the table (\{.*\}),", str(said.value))[1]
    assert PolicyObjective.parse({"kind": "policy", "loss": tomllib.loads(f"it = {written}")["it"]}).loss == dr_grpo(128)


def test_what_cannot_work_is_refused():
    with pytest.raises(DescriptionError, match="did you mean 'dapo'"):
        described({"loss": "dappo"})
    with pytest.raises(DescriptionError, match="group = 1: set it to 2 or more"):
        described({"group": 1})
    with pytest.raises(DescriptionError, match="loss has no divergence from one"):
        described({"reference": "runs/teacher"})
    with pytest.raises(DescriptionError, match=r"and data\.kind is 'text'"):
        described(data={"kind": "text", "paths": ["x"]})
    with pytest.raises(DescriptionError, match="grades questions of generated tasks"):
        described({"reward": "task"}, data={"kind": "prompts", "paths": ["x"]})
    with pytest.raises(DescriptionError, match="order of the whole batch"):
        described(architecture=ZOO["capacity"].plain())
    with pytest.raises(DescriptionError, match="accumulation = 2 cuts the batch"):
        described({"loss": {"advantage": {"kind": "batch_mean"}}}, accumulation=2)
    for reward, said in (
        ({"kind": "exact_match", "column": "solution"}, "reads the field 'solution'"),
        ({"kind": "model", "path": "runs/judge"}, "data.kind 'prompts' writes turns by a chat template"),
    ):
        with pytest.raises(DescriptionError, match=said):
            described({"reward": reward}, data={"kind": "prompts", "paths": ["x"]})


def test_defaults_are_those_of_grpo():
    assert PolicyObjective().loss == PolicyLoss()
    assert PolicyObjective().rollouts == Rollouts()


def test_a_run_says_what_it_started_from_and_its_evaluation_repeats_its_last(tmp_path):
    """Both ask other code for the model's answers than the loop of a run."""
    runs_dir, quiet = tmp_path, Console(quiet=True)
    task = Run.parse({**described().plain(), "objective": {"kind": "task"}})
    train(runs.short(task), runs_dir / "begun", console=quiet)
    trained = train(
        runs.short(described({"loss": "ppo"}, start_from=str(runs_dir / "begun"), data=SORTING | {"test": 64})).but(steps=2),
        runs_dir / "policy",
        console=quiet,
    )
    assert trained.before is not None
    assert trained.before.loss <= 0
    found = measure(task_of(open_subject(runs_dir / "policy"), ()))
    assert set(found.evaluated.metrics) == {"reward", "exact", "length", "truncated"}
