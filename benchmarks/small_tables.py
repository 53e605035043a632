"""What 4 bits round, and what tables of tokens in few bits cost: errors, and the held-out loss of small models.

    python -m benchmarks.small_tables                       # some twelve minutes of one core
    python -m benchmarks.small_tables --folder runs/tables  # keeps the trained runs there, and goes on with those stopped
    python -m benchmarks.small_tables --tiny                # a rehearsal of a few updates, which writes no result

Beside our formats stands q4_0, in which llama.cpp's files hold layers and the table of tokens: groups of 32 numbers with one
scale of 16 bits, as gguf's own Python code rounds. Matrices of normal numbers tell the formats apart without training. Then a
Llama as in `benchmarks.quantised`, but of 4,096 tokens and with a tied head, learns the text of python-stdlib in fp32 with
two seeds; its layers and its table are rounded to the nearest in each pair of formats, and it reads the same windows of
held-out text. Products are computed in fp32, so that what is measured is the storing alone. Writes
benchmarks/results/small-tables.json, of which `docs/make_precision.py` makes a section of docs/precision.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import asdict
from datetime import date
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import gguf
import torch
from benchmarks.compare import RESULTS, machine
from benchmarks.quantised import Sizes, each_seed, losses, run_of, trained
from gguf.quants import dequantize, quantize
from torch import Tensor

from anyformer.catalogue.llama import llama
from anyformer.data import BytePairs, Split, Text
from anyformer.describe import change_all
from anyformer.model.transformer import Transformer
from anyformer.operations import Shape
from anyformer.quantising import FORMATS, Quantising
from anyformer.quantising.tensor import PackedMatrix
from anyformer.training import Run
from anyformer.training.held_out import corpus_of

RESULT = RESULTS / "small-tables.json"
VOCAB = 4096
SEEDS = (0, 1)
NORMAL = 2048
"""Rows and columns of a matrix of normal numbers."""
TINY = Sizes(updates=3, width=64, depth=1, ffn=64, batch=2, length=32, windows=6)
PAIRS = (
    ("bf16", "bf16"), ("q4_0", "bf16"), ("q4_0", "q4_0"),
    ("int4-32", "bf16"), ("int4-32", "int8"), ("int4-32", "int4-32"),
    ("int4-64", "bf16"), ("int4-64", "int8"), ("int4-64", "int4-64"),
)  # fmt: skip
"""Formats of the layers and of the table."""


def q4_0(matrix: Tensor) -> Tensor:
    """The numbers that a file of llama.cpp holds."""
    kind = gguf.GGMLQuantizationType.Q4_0
    return torch.from_numpy(dequantize(quantize(matrix.detach().numpy(), kind), kind).reshape(matrix.shape))


def ours(name: str) -> Callable[[Tensor], Tensor]:
    """Rounding to a format of ours."""
    format = FORMATS[name]
    if not isinstance(format, Quantising):
        return lambda matrix: matrix.bfloat16().float()
    return lambda matrix: format.restored(format.quantised(matrix), tuple(matrix.shape))


ROUNDED: Mapping[str, Callable[[Tensor], Tensor]] = {
    "q4_0": q4_0, **{name: ours(name) for name in ("bf16", "int8", "int4-32", "int4-64")}
}  # fmt: skip
"""The numbers of a matrix as each format holds them."""
NARROW = ("q4_0", "int4-32", "int4-64")
"""Formats of 4 bits and what groups share."""


def bits(name: str) -> list[float]:
    """Bits of a number as it is stored, and as a product of few rows reads it."""
    format = FORMATS.get(name)
    if not isinstance(format, Quantising):
        return [4.5, 4.5]  # 4 and a share of a scale of 16 bits
    held = PackedMatrix.of(torch.zeros(128, 128), format)
    return [8 * size / held.numel() for size in (held.stored_bytes, held.read_bytes)]


def error(matrix: Tensor, name: str) -> float:
    """|r(W) - W| / |W|."""
    return round(float((ROUNDED[name](matrix) - matrix).norm() / matrix.norm()), 5)


def of_size(seed: int, sizes: Sizes, paths: tuple[str, ...] = ("python-stdlib",)) -> Run:
    """The training of one seed."""
    shape = llama(width=sizes.width, depth=sizes.depth, heads=4, kv_heads=2, ffn=sizes.ffn, vocab=VOCAB, tied=True)
    data = Text(paths=paths, tokenizer=BytePairs(vocab=VOCAB), validation=0.02)
    return change_all(run_of(seed, sizes), {"data": data, "architecture": shape})


def parts_of(model: Transformer) -> tuple[list[str], list[str]]:
    """The paths of the matrices of layers, and of the tables."""
    weights = model.architecture.trained_cost(Shape(source=1)).weights.items()
    return [path for path, one in weights if one.quantisable], [path for path, one in weights if one.of_vocabulary]


@torch.no_grad()
def rounded(model: Transformer, layers: str, tables: str) -> Transformer:
    """A copy of the model with its layers and its tables rounded."""
    made = deepcopy(model)
    for paths, name in zip(parts_of(model), (layers, tables), strict=True):
        for path in paths:
            weight = made.get_parameter(path)
            weight.copy_(ROUNDED[name](weight))
    return made


def errors(model: Transformer) -> dict[str, dict[str, float]]:
    """Of each format in 4 bits: the median and the worst error of the matrices of layers, and the table's."""
    layers, tables = ([model.get_parameter(path).detach() for path in paths] for paths in parts_of(model))
    found = {}
    for name in NARROW:
        each = [error(matrix, name) for matrix in layers]
        found[name] = {"layers": median(each), "worst": max(each), "table": max(error(matrix, name) for matrix in tables)}
    return found


def measured(run: Run, directory: Path, sizes: Sizes) -> dict[str, Any]:
    """Errors and losses of the model of one seed."""
    model, text = trained(run, directory), corpus_of(run).validation
    assert isinstance(text, Split), "text is prepared as running tokens"
    counts, whole = losses(model, text, sizes)
    rows = []
    for layers, tables in PAIRS:
        _, nats = losses(rounded(model, layers, tables), text, sizes)
        beyond = [round(x, 5) for x in (nats - whole).tolist()]
        rows.append({"layers": layers, "tables": tables, "loss": round(float(nats.sum() / counts.sum()), 6), "beyond": beyond})
        print(f"seed {run.seed}, layers in {layers}, table in {tables}: {rows[-1]['loss']:.5f}", flush=True)
    parameters = sum(weight.numel() for weight in model.parameters())
    return {
        "seed": run.seed, "parameters": parameters, "targets": counts.astype(int).tolist(), "errors": errors(model),
        "loss": round(float(whole.sum() / counts.sum()), 6), "pairs": rows,
    }  # fmt: skip


def write(results: Iterable[dict[str, Any]], sizes: Sizes) -> None:
    """Put the results so far into the committed file."""
    torch.manual_seed(0)
    matrix = torch.randn(NORMAL, NORMAL)
    record = {
        "date": date.today().isoformat(), "machine": machine(), "sizes": asdict(sizes), "vocab": VOCAB,
        "versions": {name: version(name) for name in ("anyformer", "torch", "gguf")},
        "bits": {name: bits(name) for name in NARROW}, "normal": {name: error(matrix, name) for name in NARROW},
        "results": list(results),
    }  # fmt: skip
    RESULT.write_text(json.dumps(record) + "\n")


def main() -> None:
    """Train and measure, and write what was found after each seed."""
    each_seed(__doc__, SEEDS, Sizes(), TINY, lambda seed, folder, sizes: measured(of_size(seed, sizes), folder, sizes), write)


if __name__ == "__main__":
    main()
