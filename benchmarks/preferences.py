"""Losses of preferences and of rewards beside TRL's on the same batches of tokens and the same weights.

    python -m benchmarks.preferences --trl PATH/TO/python

The interpreter has TRL (`peers/requirements-elsewhere.txt`). A small Llama, its reference and one with a head of one number are
written in transformers' layout; TRL's own trainers compute their losses of these directories, in fp32. Exits with 1 where a
loss differs by more than 1e-5 of its size. Figures do not depend on the machine's speed. Writes
benchmarks/results/preferences.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.compare import RESULTS

import anyformer as af
from anyformer.catalogue.llama import llama
from anyformer.data import RecordBatch, RecordTable
from anyformer.data.columns import FLAGS, LABEL, NUMBER, TOKENS
from anyformer.objectives import (
    DPOObjective,
    HingeLoss,
    KTOObjective,
    Objective,
    RewardObjective,
    RobustLoss,
    Setting,
    SquaredLoss,
    loss_of,
)
from anyformer.parts import Head

RESULT = RESULTS / "preferences.json"
THEIRS = Path(__file__).parent / "peers" / "trl_losses.py"
NEAR = 1e-5
"""What a loss may differ by, of its size."""
VOCAB, LENGTH, ROWS = 97, 24, 6
LLAMA = llama(width=32, depth=2, heads=4, kv_heads=2, ffn=48, vocab=VOCAB)
SETTINGS: dict[str, tuple[Objective, str, dict[str, Any]]] = {
    "DPO": (DPOObjective(beta=0.3), "dpo", {"beta": 0.3}),
    "robust DPO": (
        DPOObjective(beta=0.3, loss=RobustLoss(flipped=0.2)), "dpo",
        {"beta": 0.3, "loss_type": "robust", "label_smoothing": 0.2},
    ),
    "IPO": (DPOObjective(beta=0.3, loss=SquaredLoss(), per_token=True), "dpo", {"beta": 0.3, "loss_type": "ipo"}),
    "SLiC": (DPOObjective(beta=0.3, loss=HingeLoss()), "dpo", {"beta": 0.3, "loss_type": "hinge"}),
    "DPO per token": (DPOObjective(beta=2.0, per_token=True), "dpo", {"beta": 2.0, "loss_type": "sigmoid_norm"}),
    "KTO": (KTOObjective(beta=0.3), "kto", {"beta": 0.3}),
    "KTO, weighed": (
        KTOObjective(beta=0.3, desirable=1.5, undesirable=0.7), "kto",
        {"beta": 0.3, "desirable_weight": 1.5, "undesirable_weight": 0.7},
    ),
    "Bradley-Terry": (RewardObjective(), "reward", {}),
    "with margins": (RewardObjective(), "reward", {"margins": True}),
    "centred": (RewardObjective(centre=0.1), "reward", {"center_rewards_coefficient": 0.1}),
}  # fmt: skip
"""Our objective; the trainer, and its fields, that computes the same."""


def tables() -> tuple[RecordTable, RecordTable]:
    """Pairs, and answers that were judged: random tokens after prompts and of answers of several lengths."""
    generator = np.random.default_rng(3)

    def drawn(most: int) -> list[int]:
        found: list[int] = generator.integers(1, VOCAB, int(generator.integers(2, most))).tolist()
        return found

    pairs, judged = [], []
    for number in range(ROWS):
        prompt, answers = drawn(9), (drawn(12), drawn(12))
        rows = [(prompt + answer, [0] * len(prompt) + [1] * len(answer)) for answer in answers]
        (chosen, first), (rejected, second) = rows
        pairs.append(
            {"chosen": chosen, "chosen_answers": first, "rejected": rejected, "rejected_answers": second, "margin": number / 3}
        )
        judged.append({"tokens": chosen, "answers": first, "desirable": int(number % 3 > 0)})
    columns = {"chosen": TOKENS, "rejected": TOKENS, "chosen_answers": FLAGS, "rejected_answers": FLAGS, "margin": NUMBER}
    return (
        RecordTable.of(columns, pairs),
        RecordTable.of({"tokens": TOKENS, "answers": FLAGS, "desirable": LABEL}, judged),
    )


def batch_of(table: RecordTable, without: tuple[str, ...] = ()) -> RecordBatch:
    rows = [{name: value for name, value in table[n].items() if name not in without} for n in range(len(table))]
    return RecordBatch(tuple((row,) for row in rows), np.arange(len(rows)))


def given_to_them(pairs: RecordTable, judged: RecordTable) -> dict[str, Any]:
    """The batches as TRL's trainers have them behind their collators."""

    def row(tokens: Any, answers: Any) -> dict[str, list[int]]:
        return {"tokens": tokens.tolist(), "answers": answers.tolist()}

    rows = [judged[n] for n in range(len(judged))]
    prompts = [each["tokens"][each["answers"] == 0] for each in rows]
    said = [each["tokens"][each["answers"] > 0] for each in rows]
    others = [
        {"tokens": [*prompts[n].tolist(), *said[n - 1].tolist()], "answers": [0] * len(prompts[n]) + [1] * len(said[n - 1])}
        for n in range(len(rows))
    ]
    return {
        "pairs": [
            {name: row(one[name], one[f"{name}_answers"]) for name in ("chosen", "rejected")} | {"margin": float(one["margin"])}
            for one in (pairs[n] for n in range(len(pairs)))
        ],
        "judged": [
            row(each["tokens"], each["answers"]) | {"desirable": bool(each["desirable"]), "other": other}
            for each, other in zip(rows, others, strict=True)
        ],
        "settings": {name: {"trainer": trainer, "fields": fields} for name, (_, trainer, fields) in SETTINGS.items()},
    }


def main() -> None:
    """Ours, theirs, and what they differ by."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trl", required=True, help="the Python of an environment that has TRL", metavar="PATH")
    pairs, judged = tables()
    models = {
        "policy": af.build(LLAMA, seed=3), "reference": af.build(LLAMA, seed=4),
        "reward": af.build(LLAMA.but(head=Head(outputs=1, pool="last", passed_over=0)), seed=5),
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for name, model in models.items():
            with torch.no_grad():
                for weight in model.parameters():
                    weight.mul_(3)  # answers that differ
            af.export(model.eval(), Path(folder) / name)
        (Path(folder) / "batch.json").write_text(json.dumps(given_to_them(pairs, judged)))
        done = subprocess.run([parser.parse_args().trl, str(THEIRS), folder], stdout=subprocess.PIPE, text=True, check=True)
    theirs = json.loads(done.stdout.splitlines()[-1])
    losses = {}
    for name, (objective, trainer, fields) in SETTINGS.items():
        batch = batch_of(judged) if trainer == "kto" else batch_of(pairs, () if fields.get("margins") else ("margin",))
        examples = objective.examples(batch, Setting(None, LENGTH))
        own = models["reward" if trainer == "reward" else "policy"]
        with torch.no_grad():
            loss = float(loss_of(objective, own, examples, None, partners={"reference": models["reference"]})) / examples.count
        other = theirs["losses"][name]
        losses[name] = {"ours": loss, "trl": other, "apart": abs(loss - other) / max(abs(other), 1e-9)}
        print(f"{name:14} {loss:.7f} beside {other:.7f}: {losses[name]['apart']:.1e} apart")
    versions = {name: version(name) for name in ("anyformer", "torch")}
    record = {"date": date.today().isoformat(), "versions": versions, "theirs": theirs["versions"], "losses": losses}
    RESULT.write_text(json.dumps(record, indent=1) + "\n")
    sys.exit(any(one["apart"] > NEAR for one in losses.values()))


if __name__ == "__main__":
    main()
