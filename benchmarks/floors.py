"""Floors of decoding, of the loss and of training: what reading memory, products of few rows, a cross-entropy and the products
of a training step take by themselves.

    python -m benchmarks.floors
    python -m benchmarks.floors --steps small nanogpt

Few rows wait for the bytes of the weights, so a product is told by its bytes per second, beside those of reading memory. The
matrices are those of a 110 M parameter Llama, as many as do not fit into a cache. A step of training cannot be faster than its
products alone, each measured by itself, forward and backward, every pair of a query and a key counted. Times are medians of
several runs.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from benchmarks.cases import TRAININGS, Training
from benchmarks.ours_models import trained
from benchmarks.sitting import RESULTS, machine, written
from torch import Tensor

from anyformer.costs.allocated import peak_above
from anyformer.model.loss import token_losses
from anyformer.operations import Shape
from anyformer.operations.work import Pairs, Product
from anyformer.processor import packs
from anyformer.quantising import FORMATS, HALF
from anyformer.quantising.tensor import PackedMatrix

MATRICES = {"768 -> 768": (768, 768), "768 -> 2,048": (2048, 768), "2,048 -> 768": (768, 2048), "768 -> 32,000": (32_000, 768)}
"""(outputs, inputs)."""
ROWS = (1, 16)
BEYOND_CACHE = 300e6
"""Bytes of the matrices that take turns."""
NUMBERS = {"bf16": torch.bfloat16, "fp32": torch.float32}
"""Types of the products of a step."""
LOSSES = {"4,096 x 4,096": (4096, 4096), "1,024 x 32,000": (1024, 32_000)}


def seconds(run: Callable[[], object], repeats: int = 5) -> float:
    """The median time of a call."""
    run()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def reading() -> float:
    """Bytes per second of adding up 400 MB."""
    x = torch.ones(100_000_000)
    return x.nbytes / seconds(x.sum)


Multiply = Callable[[Tensor], object]
"""x (rows, inputs) -> x W^T."""


def _linear(W: Tensor) -> tuple[Multiply, int]:
    """The product by a matrix as it is held, and the bytes of the matrix."""
    return lambda x: F.linear(x, W), W.stored_bytes if isinstance(W, PackedMatrix) else W.nbytes


def _packed_by_onednn(W: Tensor) -> tuple[Multiply, int]:
    """oneDNN's own order of a matrix in bf16, laid out for few rows; inputs in bf16."""
    half = W.to(torch.bfloat16)
    packed = torch.ops.mkldnn._reorder_linear_weight(half, 1)

    def multiply(x: Tensor) -> Tensor:
        found: Tensor = torch.ops.mkldnn._linear_pointwise(x.to(torch.bfloat16), packed, None, "none", [], "")
        return found

    return multiply, half.nbytes


FORMS: Mapping[str, Callable[[Tensor], tuple[Multiply, int]]] = {
    "fp32, row by row": _linear,
    "fp32, column by column": lambda W: _linear(W.T.contiguous().T),
    "bf16": lambda W: _linear(PackedMatrix.of(W, HALF)),
    "bf16, packed by oneDNN": _packed_by_onednn,
    "int8": lambda W: _linear(PackedMatrix.of(W, FORMATS["int8"])),
    "int4-32": lambda W: _linear(PackedMatrix.of(W, FORMATS["int4-32"])),
}


def held() -> dict[str, Callable[[Tensor], tuple[Multiply, int]]]:
    """The forms of a matrix that this processor can multiply by."""
    return {name: hold for name, hold in FORMS.items() if hold is not _packed_by_onednn or packs(torch.bfloat16)}


def products(shape: Sequence[int], rows: int) -> dict[str, dict[str, float]]:
    """Of each form of a matrix: microseconds of a product, and bytes of the matrix per second."""
    outputs, inputs = shape
    copies = max(1, min(60, int(BEYOND_CACHE / (4 * outputs * inputs))))
    x, found = torch.randn(rows, inputs), {}
    for name, hold in held().items():
        matrices = [hold(torch.randn(outputs, inputs)) for _ in range(copies)]

        def run(matrices: list[tuple[Multiply, int]] = matrices) -> None:
            for multiply, _ in matrices:
                multiply(x)

        each = seconds(run) / copies
        found[name] = {"microseconds": round(each * 1e6, 1), "bytes_per_second": round(matrices[0][1] / each)}
    return found


Matrices = tuple[int, int, int, int]
"""A product of `count` pairs of matrices, (count, rows, inner) by (count, inner, columns)."""


def step_products(sizes: Training) -> dict[Matrices, int]:
    """How often each product is made in a step of training; one of the forward pass has two more, for both gradients."""
    architecture = trained(sizes)
    shape = Shape(batch=sizes.batch, length=sizes.length, source=sizes.length if architecture.two_inputs else 0)
    found: dict[Matrices, int] = {}
    for node in architecture.trained_cost(shape).nodes():
        for work in node.tally.own_work.values():
            for product in _with_gradients(work):
                found[product] = found.get(product, 0) + node.times
    return found


def _with_gradients(work: object) -> list[Matrices]:
    """The products of one operation in a step, those of recurrences left out."""
    match work:
        case Product(rows=rows, inputs=inner, outputs=columns):
            count = 1
        case Pairs(sums="features", queries=rows, features=inner):
            count, columns = work.batch * work.heads, work.pairs // rows
        case Pairs(queries=rows, features=columns):
            count, inner = work.batch * work.heads, work.pairs // rows
        case _:
            return []
    return [(count, rows, inner, columns), (count, rows, columns, inner), (count, inner, rows, columns)]


def step(sizes: Training, dtype: torch.dtype) -> dict[str, float]:
    """Seconds of all products of a step of training, and the tokens per second if nothing else took time."""
    total, flops = 0.0, 0
    for (count, rows, inner, columns), times in step_products(sizes).items():
        a, b = torch.randn(count, rows, inner).to(dtype), torch.randn(count, inner, columns).to(dtype)
        if count == 1:
            a, b = a[0], b[0]
        total += times * seconds(lambda a=a, b=b: a @ b, repeats=3)
        flops += times * 2 * count * rows * inner * columns
    return {
        "seconds": round(total, 4),
        "tokens_per_second": round(sizes.tokens / total, 1),
        "flops": flops,
        "flops_per_second": round(flops / total),
    }


def plain_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """The cross-entropy of all rows at once, as autograd differentiates it."""
    return F.cross_entropy(logits.float(), targets, reduction="sum")


def losses(rows: int, tokens: int, dtype: torch.dtype) -> dict[str, dict[str, float]]:
    """Milliseconds and bytes beside the logits, of a loss and its gradient, at once and in pieces."""
    targets = torch.randint(0, tokens, (rows,))
    found = {}
    for name, loss in (("at once", plain_loss), ("in pieces", lambda z, y: token_losses(z, y)[0].sum())):
        logits = torch.randn(rows, tokens).to(dtype).requires_grad_()

        def run(logits: Tensor = logits, loss: Callable[[Tensor, Tensor], Tensor] = loss) -> None:
            logits.grad = None
            loss(logits, targets).backward()  # type: ignore[no-untyped-call]

        found[name] = {"milliseconds": round(seconds(run) * 1e3, 1), "bytes": peak_above(run, torch.device("cpu"))}
    return found


def main() -> None:
    """Measure, print and write down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", nargs="*", choices=tuple(TRAININGS), default=list(TRAININGS), help="shapes of training")
    parser.add_argument("--output", type=Path, metavar="FILE", default=RESULTS / "floors.json", help="the result's file")
    arguments = parser.parse_args()
    record: dict[str, Any] = {
        "date": date.today().isoformat(), "machine": machine(), "torch": torch.__version__, "threads": torch.get_num_threads(),
    }  # fmt: skip
    with torch.inference_mode():
        record["reading"] = round(reading())
        record["products"] = {f"{rows} x {name}": products(shape, rows) for rows in ROWS for name, shape in MATRICES.items()}
        record["steps"] = {
            name: {number: step(TRAININGS[name], dtype) for number, dtype in NUMBERS.items()} for name in arguments.steps
        }
    record["losses"] = {
        f"{name}, {str(dtype).removeprefix('torch.')}": losses(*sizes, dtype)
        for name, sizes in LOSSES.items()
        for dtype in (torch.float32, torch.bfloat16)
    }
    written(arguments.output, record)
    print(arguments.output.read_text())


if __name__ == "__main__":
    main()
