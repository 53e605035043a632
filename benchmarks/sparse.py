"""Trains sparse autoencoders here and by SAELens on the same activations, and evaluates both in the same way.

    .venv-saelens/bin/python -m benchmarks.sparse runs/source
    .venv-saelens/bin/python -m benchmarks.sparse runs/source top_k --steps 200    # one code alone; other results stay

`runs/source` is a model of `recipes/stdlib.toml`. In each update both learn from the same vectors, in the same order, with
the same rate, width, sparsity and Adam; theirs starts from its own first weights, and is then read from the directory that
SAELens writes, so that the figures of both are of one evaluation, on held-out text. A seed draws first weights and the rows of
text. All codes of a seed learn side by side, and so the source reads a row once. Writes benchmarks/results/sparse.json, from
which docs/make_sparse.py makes the table of docs/sparse.md. The environment: benchmarks/peers/requirements-saelens.txt.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import torch
from benchmarks.compare import RESULTS, machine
from torch import Tensor

from anyformer.huggingface.saelens import load_saelens
from anyformer.loading import architecture_of
from anyformer.model import dictionary_alone
from anyformer.model.transformer import Transformer
from anyformer.operations import Shape
from anyformer.parts import BatchTopKCode, Dictionary, JumpReLUCode, MeanLength, ReLUCode, Revival, TopKCode
from anyformer.parts.dictionary.codes import Code
from anyformer.training import Run
from anyformer.training.evaluate import evaluate
from anyformer.training.held_out import corpus_of
from anyformer.training.passes import MicroBatches
from anyformer.training.precision import Host
from anyformer.training.trainer import Trainer

RESULT = RESULTS / "sparse.json"
BATCH, LENGTH = 2, 256
FEATURES, K = 1024, 32
RATE, WARMUP = 1e-3, 30
"""WARMUP: updates until the rate is whole; SAELens counts the whole one among them, and here it is the next."""
WINDOW = 50
"""Updates after which a feature that was not active is dead."""
ESTIMATED = 10
"""Batches of which SAELens takes the mean length."""
HELD_OUT = 16
"""Rows of the evaluation."""
FIGURES = ("explained_variance", "mse", "l0", "loss_recovered", "dead")


@dataclass(frozen=True)
class Setting:
    """A code here, the fields of the objective, and SAELens's class and fields for the same."""

    code: Code
    objective: dict[str, float]
    theirs: str
    fields: dict[str, float]
    revival: Revival | None = None
    unit: bool = False


DEAD = Revival(after=WINDOW * BATCH * LENGTH)
BATCH_CODE = BatchTopKCode(k=float(K), momentum=0.05)
BATCH_FIELDS = {"k": K, "topk_threshold_lr": 0.05}
SETTINGS = {
    "relu": Setting(ReLUCode(), {"sparsity": 5.0}, "StandardTrainingSAE", {"l1_coefficient": 5.0}),
    "top_k": Setting(TopKCode(k=K), {"revival": 1.0}, "TopKTrainingSAE", {"k": K}, DEAD, unit=True),
    "batch_top_k": Setting(BATCH_CODE, {"revival": 1.0}, "BatchTopKTrainingSAE", BATCH_FIELDS, DEAD, unit=True),
    "jump_relu": Setting(JumpReLUCode(), {"sparsity": 1.0}, "JumpReLUTrainingSAE", {"l0_coefficient": 1.0}),
    "batch_top_k_free": Setting(
        BATCH_CODE, {"revival": 1.0}, "BatchTopKTrainingSAE", {**BATCH_FIELDS, "rescale_acts_by_decoder_norm": False}, DEAD
    ),
}
"""In the last one neither holds vectors at a length, nor chooses by it."""


def run_of(setting: Setting, source: Path, steps: int, seed: int) -> Run:
    """The run of ours."""
    width = architecture_of(str(source)).width
    part = Dictionary(features=FEATURES, code=setting.code, length=MeanLength(), revival=setting.revival, unit=setting.unit)
    return Run.parse({
        "steps": steps, "batch": BATCH, "length": LENGTH, "seed": seed,
        "data": {
            "paths": ["python-stdlib"], "validation": 0.02, "sampling": "random",
            "tokenizer": {"kind": "file", "path": str(newest_tokenizer(source))},
        },
        "objective": {"kind": "sae", "source": str(source), "path": "decoder.layer[3].output", **setting.objective},
        "optimiser": {"kind": "adamw", "learning_rate": RATE, "betas": [0.9, 0.999], "weight_decay": 0.0},
        "schedule": {"kind": "constant", "warmup": WARMUP - 1}, "plan": {"precision": "fp32", "compile": "off"},
        "architecture": dictionary_alone(part, width).plain(),
    })  # fmt: skip


def newest_tokenizer(source: Path) -> Path:
    """The newest checkpoint of a run, whose tokenizer.json it is."""
    return sorted((source / "checkpoints").iterdir())[-1]


def peer(setting: Setting, width: int, steps: int, seed: int, batches: Iterator[Tensor]) -> Any:
    """SAELens's trainer of the same."""
    import sae_lens
    from sae_lens.config import LoggingConfig, SAETrainerConfig
    from sae_lens.training.sae_trainer import SAETrainer

    torch.manual_seed(seed)
    made = getattr(sae_lens, setting.theirs)
    config = getattr(sae_lens, f"{setting.theirs}Config")(
        d_in=width, d_sae=FEATURES, normalize_activations="expected_average_only_in", **setting.fields
    )
    trainer = SAETrainer(
        SAETrainerConfig(
            total_training_samples=steps * BATCH * LENGTH, train_batch_size_samples=BATCH * LENGTH, lr=RATE,
            lr_warm_up_steps=WARMUP, lr_end=RATE, dead_feature_window=WINDOW, n_batches_for_norm_estimate=ESTIMATED,
            logger=LoggingConfig(log_to_wandb=False),
        ),
        made(config), batches,
    )  # fmt: skip
    trainer.activation_scaler.estimate_scaling_factor(d_in=width, data_provider=batches, n_batches_for_norm_estimate=ESTIMATED)
    return trainer


def figures_of(trainer: Trainer, model: Transformer) -> dict[str, float]:
    """The metrics of a model on held-out text."""
    run = trainer.run
    found = evaluate(model, run.objective, trainer.held_out, run.plan, most=HELD_OUT, partners=trainer.partners)
    return {name: round(found.metrics[name], 5) for name in (*FIGURES, "source_loss", "zeros_loss")}


class Pair(NamedTuple):
    """A code's trainer here, and SAELens's."""

    ours: Trainer
    theirs: Any

    def update(self, batch: MicroBatches, step: int) -> None:
        self.ours.updates.update(batch, self.ours.rate(step))
        self.theirs.step(vectors(batch))
        self.theirs.n_training_steps += 1

    def figures(self) -> dict[str, dict[str, float]]:
        """The metrics of both."""
        theirs = self.theirs.sae
        theirs.fold_activation_norm_scaling_factor(self.theirs.activation_scaler.scaling_factor)
        with tempfile.TemporaryDirectory() as place:
            theirs.save_inference_model(place)
            read = load_saelens(place)
        return {"anyformer": figures_of(self.ours, self.ours.model), "saelens": figures_of(self.ours, read)}


def vectors(batch: MicroBatches) -> Tensor:
    """(B T, D): the activations of a batch."""
    return batch.pieces[0].tokens.flatten(0, 1)


def attempt(names: Sequence[str], source: Path, steps: int, seed: int) -> dict[str, dict[str, dict[str, float]]]:
    """Both of every code trained on the same vectors: their figures."""
    runs = {name: run_of(SETTINGS[name], source, steps, seed) for name in names}
    corpus, host = corpus_of(runs[names[0]]), Host(torch.device("cpu"), {"fp32": 1e9})
    ours = {name: Trainer.start(run, corpus, host) for name, run in runs.items()}
    one = ours[names[0]]
    first = [vectors(one.micro_batches(step)) for step in range(ESTIMATED)]
    width = one.model.architecture.width
    pairs = {name: Pair(ours[name], peer(SETTINGS[name], width, steps, seed, iter(first))) for name in names}
    for step in range(steps):
        batch = one.micro_batches(step)
        for pair in pairs.values():
            pair.update(batch, step)
        if step % 20 == 0:
            print(f"  update {step} of {steps}", flush=True)
    return {name: pair.figures() for name, pair in pairs.items()}


def written(source: Path, steps: int, seed: int, found: dict[str, dict[str, dict[str, float]]]) -> None:
    """Add a seed's figures to the result; figures of another number of updates make room."""
    facts = {
        "date": date.today().isoformat(), "command": "python -m benchmarks.sparse RUN", "machine": machine(),
        "torch": torch.__version__, "sae_lens": version("sae-lens"),
        "source_parameters": architecture_of(str(source)).folded_cost(Shape()).parameters, "features": FEATURES,
        "positions": BATCH * LENGTH, "path": "decoder.layer[3].output", "held_out_rows": HELD_OUT,
    }  # fmt: skip
    known = json.loads(RESULT.read_text(encoding="utf-8"))["results"] if RESULT.is_file() else {}
    for name, figures in found.items():
        seeds = {key: row for key, row in known.get(name, {}).get("seeds", {}).items() if known[name]["updates"] == steps}
        known[name] = {"updates": steps, "seeds": {**seeds, str(seed): figures}}
    ordered = {name: known[name] for name in SETTINGS if name in known}
    RESULT.write_text(json.dumps({**facts, "results": ordered}, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("codes", nargs="*", choices=[[], *SETTINGS], metavar="CODE")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    asked = parser.parse_args()
    torch.set_num_threads(1)
    for seed in asked.seeds:
        print(f"seed {seed}", flush=True)
        found = attempt(asked.codes or list(SETTINGS), asked.source.resolve(), asked.steps, seed)
        for name, both in found.items():
            for who, figures in both.items():
                told = "  ".join(f"{each} {figures[each]:.4f}" for each in FIGURES)
                print(f"  {name:<12} {who:<10} {told}", flush=True)
        written(asked.source, asked.steps, seed, found)


if __name__ == "__main__":
    main()
