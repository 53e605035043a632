"""From a model that answers at random to a preferred one, step by step, and two ways to learn from a teacher: three seeds each.

    python -m benchmarks.aligning                     # goes on where it stopped

Walks: `recipes/walks` as they stand, with models and seeds of this benchmark. A question is answered by four words; which fit
is planted (`anyformer.data.builtin.walks`). Told of every model: the share of words that fit in answers to questions that are
in no records, sampled at temperature 1; the loss per token of random answers to these, which the first model learnt; of the
reward model the share of held-out pairs that it puts in order.

Distillation: the half-trained models of `recipes/addition.toml` learn of one that adds, as many answers each: of those that the
data give (`offline`: the forward divergence), or of their own (`on-policy`: the reverse divergence at all tokens). Told: the
share of held-out sums that are right.

Models lie in `--folder`; what has ended is not made again. Writes benchmarks/results/aligning.json; `python
docs/make_preferences.py` then fills in the page.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import torch
from benchmarks.processor_run import ROOT, ran
from benchmarks.sitting import RESULTS, machine

import anyformer as af
from anyformer.data import Completions
from anyformer.data.builtin.walks import COUNT, QUESTIONS, answer_of, fitting, question_of
from anyformer.generation.rollouts import Rollouts, sampled
from anyformer.generation.sampled import sampled_log_p, sampled_scores
from anyformer.model.transformer import Transformer
from anyformer.studies.statistics import interval
from anyformer.text import Tokenizer

RESULT = RESULTS / "aligning.json"
WALKS = ROOT / "recipes" / "walks"
ADDITION = ROOT / "recipes" / "addition.toml"
ASKED = range(COUNT, min(COUNT + 512, QUESTIONS))
"""Numbers of questions that are in no records."""
TEACHER_STEPS, STUDENT_STEPS = 2000, 300
NO_REWARD = {"kind": "length", "most": 8, "slack": 1, "unit": "tokens"}
"""0 for every sum: distillation asks the teacher alone."""


def rows_of(tokenizer: Tokenizer) -> list[tuple[list[int], list[int]]]:
    """The tokens of questions, and of answers at random with their end."""
    kind, found = Completions(paths=("walk-answers",)), []
    for number in ASKED:
        record = {"prompt": question_of(number), "completion": answer_of(f"answer {number}")}
        pieces = tokenizer.encode_batch(kind.pieces(record, tokenizer), threads=False)
        row = kind.numbers(record, pieces, tokenizer, {})
        tokens, learnt = list(map(int, row["tokens"])), list(row["answers"])  # type: ignore[call-overload]
        first = learnt.index(1)
        found.append((tokens[:first], tokens[first:]))
    return found


@torch.no_grad()
def told_of(path: Path) -> dict[str, float]:
    """The share of words that fit in sampled answers, and the loss per token of answers at random."""
    model, tokenizer = af.load(path)
    assert tokenizer is not None
    rows, end = rows_of(tokenizer), tokenizer.ends
    prompts = [prompt for prompt, _ in rows]
    answers = sampled(
        model.eval(), prompts, rollouts=Rollouts(at_once=512), seeds=range(len(rows)), most=[8] * len(rows), ends=end
    )
    said = [tokenizer.decode([token for token in row.tolist() if token >= 0 and token not in end]) for row in answers.tokens]
    fits = [fitting(text) for text in said]
    losses = [loss_of(model, prompt, answer) for prompt, answer in rows]
    tokens = sum(len(answer) for _, answer in rows)
    return {"fitting": round(sum(fits) / len(fits), 4), "loss": round(sum(losses) / tokens, 4)}


def loss_of(model: Transformer, prompt: Sequence[int], answer: Sequence[int]) -> float:
    """-log p of an answer."""
    whole = torch.tensor([[*prompt, *answer]])
    scores = sampled_scores(model(whole[:, :-1]))[:, len(prompt) - 1 :]
    return -float(sampled_log_p(scores, whole[:, len(prompt) :]).sum())


def walks(seed: int, folder: Path) -> dict[str, Any]:
    """The five models of a seed."""
    answers, judge, shared = folder / f"answers-{seed}", folder / f"judge-{seed}", {"seed": seed}
    ran(WALKS / "answers.toml", answers, shared)
    onwards = {**shared, "start_from": str(answers)}
    held_out = ran(WALKS / "reward.toml", judge, onwards)[-1]["metrics"]["accuracy"]
    ran(WALKS / "dpo.toml", folder / f"dpo-{seed}", onwards)
    ran(WALKS / "kto.toml", folder / f"kto-{seed}", onwards)
    ran(WALKS / "policy.toml", folder / f"policy-{seed}", {**onwards, "objective.reward.path": str(judge)})
    models = {name: told_of(folder / f"{name}-{seed}") for name in ("answers", "dpo", "kto", "policy")}
    return {"reward model": {"accuracy": round(held_out, 4)}, **models}


def distilled(seed: int, folder: Path) -> dict[str, Any]:
    """What a student reached by either way."""
    teacher, start = folder / "teacher", folder / f"student-{seed}"
    knows = ran(ADDITION, teacher, {"seed": 100, "steps": TEACHER_STEPS})[-1]["metrics"]["whole_answers"]
    before = ran(ADDITION, start, {"seed": seed})[-1]["metrics"]["whole_answers"]
    shared = {
        "seed": seed, "start_from": str(start), "steps": STUDENT_STEPS, "optimiser.learning_rate": 5e-4,
        "evaluation.every": STUDENT_STEPS,
    }  # fmt: skip
    offline = {"kind": "distillation", "teacher": str(teacher), "alpha": 1.0, "temperature": 1.0, "of": {"kind": "task"}}
    own = {
        "kind": "policy", "group": 1, "loss": "exact_on_policy_distillation", "reference": str(teacher), "reward": NO_REWARD,
    }  # fmt: skip
    found = {
        "offline": ran(ADDITION, folder / f"offline-{seed}", {**shared, "objective": offline})[-1]["metrics"]["whole_answers"],
        "on-policy": ran(ADDITION, folder / f"on-policy-{seed}", {**shared, "objective": own})[-1]["metrics"]["exact"],
    }
    return {name: {"right": round(value, 4)} for name, value in {"teacher": knows, "student": before, **found}.items()}


def summed(cells: Sequence[Mapping[str, Mapping[str, float]]]) -> dict[str, dict[str, Any]]:
    """Means of every figure over seeds with 95 % intervals of Student's t."""
    found: dict[str, dict[str, Any]] = {}
    for model, figures in cells[0].items():
        for name in figures:
            values = [cell[model][name] for cell in cells]
            told = interval(values)
            ends = [round(told.low, 4), round(told.high, 4)] if len(values) > 1 else None
            found.setdefault(model, {})[name] = {
                "mean": round(sum(values) / len(values), 4), "interval": ends, "seeds": values,
            }  # fmt: skip
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "aligning", help="of models")
    parser.add_argument("--output", type=Path, default=RESULT)
    given = parser.parse_args()
    record: dict[str, Any] = {"date": date.today().isoformat(), "machine": machine()}
    for name, part in (("walks", walks), ("distillation", distilled)):
        cells = []
        for seed in given.seeds:
            cells.append(part(seed, given.folder))
            print(f"{name}, seed {seed}: {json.dumps(cells[-1])}", flush=True)
        record[name] = summed(cells)
        given.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
