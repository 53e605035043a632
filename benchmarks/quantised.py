"""What storing weights in few bits after training costs: the held-out loss of one small model in every format.

    python -m benchmarks.quantised                      # about eleven minutes of one core
    python -m benchmarks.quantised --folder runs/few    # keeps the trained runs there, and goes on with those that were stopped
    python -m benchmarks.quantised --tiny               # a rehearsal of a few updates, which writes no result

A Llama of 4 layers of width 128 learns the bytes of python-stdlib in fp32, with three seeds. Then the matrices of its layers
are put into each format, rounded to the nearest, and where the format has a calibrated form (GPTQ) once more on text of the
training split, as `anyformer quantise --calibrate` does. Each model reads the same windows of held-out text; products are
computed in fp32, so that what is measured is the storing alone. Updates are counted and one thread is used, so that neither
speed nor load changes a figure. Writes benchmarks/results/quantised.json, after each seed: of each format the bytes that the
cost sheet says and those allocated, the loss, and the nats of each window beyond those of the trained weights. Of it
`docs/make_precision.py` makes a section of docs/precision.md.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from benchmarks.compare import RESULTS, machine
from numpy.typing import NDArray
from rich.console import Console

from anyformer import transforming
from anyformer.catalogue.llama import llama
from anyformer.costs.inference import weight_bytes
from anyformer.data import IGNORED, Bytes, Split, Text, windows
from anyformer.evaluation import open_subject
from anyformer.model.transformer import Transformer
from anyformer.plan import Plan
from anyformer.precision import Fp32
from anyformer.quantising import FORMATS, Grouped, MatrixFormat
from anyformer.quantising.model import quantisable, quantised
from anyformer.quantising.tensor import Quantised
from anyformer.training import AdamW, Checkpoints, Cosine, Evaluation, Run, resume, train
from anyformer.training.held_out import corpus_of
from anyformer.training.journal import SUMMARY

RESULT = RESULTS / "quantised.json"
SEEDS = (0, 1, 2)
BESIDE = "fp32"
"""The format of the trained weights."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Sizes:
    """Of the model, its training, and the held-out text: `windows` of `length` tokens, spread evenly over it."""

    updates: int = 1200
    width: int = 128
    depth: int = 4
    ffn: int = 384
    batch: int = 4
    length: int = 256
    windows: int = 192


TINY = Sizes(updates=3, width=32, depth=1, ffn=48, batch=2, length=32, windows=6)


def run_of(seed: int, sizes: Sizes, paths: tuple[str, ...] = ("python-stdlib",)) -> Run:
    """The training of one seed."""
    return Run(
        seed=seed,
        steps=sizes.updates,
        batch=sizes.batch,
        length=sizes.length,
        data=Text(paths=paths, tokenizer=Bytes(), validation=0.02),
        optimiser=AdamW(learning_rate=3e-3),
        schedule=Cosine(warmup=min(30, sizes.updates - 1), floor=0.1),
        evaluation=Evaluation(every=sizes.updates, final_tokens=sizes.batch * sizes.length, baseline=False),
        checkpoints=Checkpoints(every=sizes.updates, keep=1),
        plan=Plan(precision=Fp32(), compile="off"),
        architecture=llama(width=sizes.width, depth=sizes.depth, heads=4, kv_heads=2, ffn=sizes.ffn, vocab=257, tied=False),
    )


def trained(run: Run, directory: Path) -> Transformer:
    """The model of a run in its directory, trained unless it is there; a run that was stopped goes on."""
    if not (directory / SUMMARY).exists():
        quiet, begun = Console(quiet=True), (directory / "run.toml").exists()
        done = resume(directory, console=quiet) if begun else train(run, directory, console=quiet)
        if not done.finished:
            raise SystemExit(done.exit_code)
    return open_subject(directory).model


def losses(model: Transformer, text: Split, sizes: Sizes) -> tuple[Floats, Floats]:
    """(targets, nats) of each of the windows, which are spread evenly over the text."""
    counts, nats = [], []
    for batch in windows(text, sizes.length, 8, most=sizes.windows):
        targets = torch.from_numpy(batch.targets)
        with torch.no_grad():
            logits = model(torch.from_numpy(batch.tokens)).transpose(1, 2)
        each = F.cross_entropy(logits.double(), targets, ignore_index=IGNORED, reduction="none")
        counts.append((targets != IGNORED).sum(1).double().numpy())
        nats.append(each.sum(1).numpy())
    return np.concatenate(counts), np.concatenate(nats)


def allocated(model: Transformer) -> int:
    """Bytes of the memory behind the weights, what two share once."""
    held = {
        plane.untyped_storage().data_ptr(): plane.untyped_storage().nbytes()
        for weight in model.parameters()
        for plane in (weight.planes.values() if isinstance(weight, Quantised) else (weight,))
    }
    return sum(held.values())


def bits(model: Transformer, format: MatrixFormat) -> float:
    """Bits of a number of a matrix that is quantised, scales included."""
    matrices = quantisable(model).values()
    return 8 * sum(map(format.matrix_bytes, matrices)) / sum(weight.count for weight in matrices)


def stored(model: Transformer, training: Split) -> Iterator[tuple[MatrixFormat, bool, Transformer]]:
    """The model in every format, rounded to the nearest and, where there is such a form, calibrated."""
    for format in FORMATS.values():
        yield format, False, quantised(model, format)[0]
        if isinstance(format, Grouped):
            yield format, True, quantised(model, format, partial(transforming.read, text=training))[0]


def measured(run: Run, directory: Path, sizes: Sizes) -> dict[str, Any]:
    """All formats of the model of one seed."""
    model, corpus = trained(run, directory), corpus_of(run)
    assert isinstance(corpus.train, Split), "text is prepared as running tokens"
    assert isinstance(corpus.validation, Split), "text is prepared as running tokens"
    counts, whole = losses(model, corpus.validation, sizes)
    rows = []
    for format, calibrated, made in stored(model, corpus.train):
        held = allocated(made)
        _, nats = losses(made.float(), corpus.validation, sizes)
        rows.append({
            "format": format.name, "calibrated": calibrated, "bits": round(bits(model, format), 4),
            "predicted_bytes": weight_bytes(model.architecture, format), "allocated_bytes": held,
            "loss": round(float(nats.sum() / counts.sum()), 6), "beyond": [round(x, 5) for x in (nats - whole).tolist()],
        })  # fmt: skip
        print(f"seed {run.seed}, {format.name}{' calibrated' * calibrated}: {rows[-1]['loss']:.5f}", flush=True)
    parameters = sum(weight.numel() for weight in model.parameters())
    return {"seed": run.seed, "parameters": parameters, "targets": counts.astype(int).tolist(), "formats": rows}


def each_seed(
    description: str | None, seeds: Sequence[int], sizes: Sizes, tiny: Sizes,
    measure: Callable[[int, Path, Sizes], dict[str, Any]], write: Callable[[list[dict[str, Any]], Sizes], None],
) -> None:  # fmt: skip
    """The command of a study: train and measure seed after seed, and write what was found after each; `tiny`: a rehearsal."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where the runs are kept; by default they are deleted at the end")
    parser.add_argument("--tiny", action="store_true", help="a few updates of one seed, and no result: a rehearsal")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        for seed in seeds[:1] if arguments.tiny else seeds:
            results.append(measure(seed, folder / f"seed-{seed}", tiny if arguments.tiny else sizes))
            if not arguments.tiny:
                write(results, sizes)


def main() -> None:
    """Train and measure, and write what was found after each seed."""
    each_seed(__doc__, SEEDS, Sizes(), TINY, lambda seed, folder, sizes: measured(run_of(seed, sizes), folder, sizes), write)


def write(results: list[dict[str, Any]], sizes: Sizes) -> None:
    """Put the results so far into the committed file."""
    versions = {name: version(name) for name in ("anyformer", "torch", "numpy")}
    record = {"date": date.today().isoformat(), "machine": machine(), "versions": versions, "sizes": asdict(sizes)}
    RESULT.write_text(json.dumps(record | {"beside": BESIDE, "results": results}) + "\n")


if __name__ == "__main__":
    main()
