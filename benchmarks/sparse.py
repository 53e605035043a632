"""Trains sparse autoencoders here and by SAELens on the same activations, and evaluates both in the same way.

    .venv-saelens/bin/python -m benchmarks.sparse runs/source
    .venv-saelens/bin/python -m benchmarks.sparse runs/source top_k --steps 200    # one code alone; other results stay

`runs/source` is a model of `recipes/stdlib.toml`. In each update both learn from the same vectors, in the same order, with
the same rate, width, sparsity and Adam; theirs starts from its own first weights, and is then read from the directory that
SAELens writes, so that the figures of both are of one evaluation, on held-out text. Writes benchmarks/results/sparse.json. The
environment: benchmarks/peers/requirements-saelens.txt.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

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
from anyformer.training.precision import Host
from anyformer.training.trainer import Trainer

RESULT = RESULTS / "sparse.json"
BATCH, LENGTH = 4, 256
FEATURES, K = 2048, 32
RATE, WARMUP = 1e-3, 30
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
SETTINGS = {
    "relu": Setting(ReLUCode(), {"sparsity": 5.0}, "StandardTrainingSAE", {"l1_coefficient": 5.0}),
    "top_k": Setting(TopKCode(k=K), {"revival": 1.0}, "TopKTrainingSAE", {"k": K}, DEAD, unit=True),
    "batch_top_k": Setting(
        BatchTopKCode(k=float(K), momentum=0.05), {"revival": 1.0}, "BatchTopKTrainingSAE", {"k": K, "topk_threshold_lr": 0.05},
        DEAD, unit=True,
    ),
    "jump_relu": Setting(JumpReLUCode(), {"sparsity": 1.0}, "JumpReLUTrainingSAE", {"l0_coefficient": 1.0}),
}  # fmt: skip


def run_of(setting: Setting, source: Path, steps: int) -> Run:
    """The run of ours."""
    width = architecture_of(str(source)).width
    part = Dictionary(features=FEATURES, code=setting.code, length=MeanLength(), revival=setting.revival, unit=setting.unit)
    return Run.parse({
        "steps": steps, "batch": BATCH, "length": LENGTH, "seed": 1,
        "data": {
            "paths": ["python-stdlib"], "validation": 0.02, "sampling": "random",
            "tokenizer": {"kind": "file", "path": str(newest_tokenizer(source))},
        },
        "objective": {"kind": "sae", "source": str(source), "path": "decoder.layer[3].output", **setting.objective},
        "optimiser": {"kind": "adamw", "learning_rate": RATE, "betas": [0.9, 0.999], "weight_decay": 0.0},
        "schedule": {"kind": "constant", "warmup": WARMUP}, "plan": {"precision": "fp32", "compile": "off"},
        "architecture": dictionary_alone(part, width).plain(),
    })  # fmt: skip


def newest_tokenizer(source: Path) -> Path:
    """The newest checkpoint of a run, whose tokenizer.json it is."""
    return sorted((source / "checkpoints").iterdir())[-1]


def peer(setting: Setting, width: int, steps: int, batches: Iterator[Tensor]) -> Any:
    """SAELens's trainer of the same."""
    import sae_lens
    from sae_lens.config import LoggingConfig, SAETrainerConfig
    from sae_lens.training.sae_trainer import SAETrainer

    torch.manual_seed(1)
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


def attempt(setting: Setting, source: Path, steps: int) -> dict[str, dict[str, float]]:
    """Both trained on the same vectors: their figures."""
    run = run_of(setting, source, steps)
    trainer = Trainer.start(run, corpus_of(run), Host(torch.device("cpu"), {"fp32": 1e9}))
    width = trainer.model.architecture.width

    def vectors(step: int) -> Tensor:
        return trainer.micro_batches(step).pieces[0].tokens.flatten(0, 1)

    theirs = peer(setting, width, steps, chain(map(vectors, range(ESTIMATED))))
    updates = trainer.updates
    for step in range(steps):
        batch = trainer.micro_batches(step)
        updates.update(batch, trainer.rate(step))
        theirs.step(batch.pieces[0].tokens.flatten(0, 1))
        theirs.n_training_steps += 1
        if step % 50 == 0:
            print(f"  update {step} of {steps}", flush=True)
    theirs.sae.fold_activation_norm_scaling_factor(theirs.activation_scaler.scaling_factor)
    with tempfile.TemporaryDirectory() as place:
        theirs.sae.save_inference_model(place)
        read = load_saelens(place)
    return {"anyformer": figures_of(trainer, trainer.model), "saelens": figures_of(trainer, read)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("codes", nargs="*", choices=[[], *SETTINGS], metavar="CODE")
    parser.add_argument("--steps", type=int, default=400)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    for name in asked.codes or SETTINGS:
        print(name, flush=True)
        own = {"updates": asked.steps, **attempt(SETTINGS[name], asked.source.resolve(), asked.steps)}
        for who in ("anyformer", "saelens"):
            print(f"  {who:<10}", "  ".join(f"{each} {own[who][each]:.4f}" for each in FIGURES), flush=True)
        source = architecture_of(str(asked.source))
        facts = {
            "date": date.today().isoformat(), "machine": machine(), "torch": torch.__version__,
            "sae_lens": version("sae-lens"), "source_parameters": source.folded_cost(Shape()).parameters, "features": FEATURES,
            "positions": BATCH * LENGTH, "path": "decoder.layer[3].output", "held_out_rows": HELD_OUT,
        }  # fmt: skip
        known = json.loads(RESULT.read_text(encoding="utf-8"))["results"] if RESULT.is_file() else {}
        known[name] = own
        RESULT.write_text(json.dumps({**facts, "results": known}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
