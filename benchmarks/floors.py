"""Floors of decoding and of the loss: what reading memory, a matrix product of few rows and a cross-entropy take by themselves.

    python -m benchmarks.floors

Few rows wait for the bytes of the weights, so a product is told by its bytes per second, beside those of reading memory. The
matrices are those of a 110 M parameter Llama, as many as do not fit into a cache. Times are medians of several runs.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any

import torch
import torch.nn.functional as F
from benchmarks.sitting import RESULTS, machine
from torch import Tensor

from anyformer.costs.allocated import peak_above
from anyformer.model.loss import token_losses
from anyformer.quantising import FORMATS, HALF, Packed

MATRICES = {"768 -> 768": (768, 768), "768 -> 2,048": (2048, 768), "2,048 -> 768": (768, 2048), "768 -> 32,000": (32_000, 768)}
"""(outputs, inputs)."""
ROWS = (1, 16)
BEYOND_CACHE = 300e6
"""Bytes of the matrices that take turns."""
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


HELD: Mapping[str, Callable[[Tensor], Tensor]] = {
    "fp32, row by row": lambda W: W,
    "fp32, column by column": lambda W: W.T.contiguous().T,
    "bf16": lambda W: Packed.of(W, HALF),
    "int8": lambda W: Packed.of(W, FORMATS["int8"]),
    "int4-32": lambda W: Packed.of(W, FORMATS["int4-32"]),
}


def products(shape: Sequence[int], rows: int) -> dict[str, dict[str, float]]:
    """Of each form of a matrix: microseconds of a product, and bytes of the matrix per second."""
    outputs, inputs = shape
    copies = max(1, min(60, int(BEYOND_CACHE / (4 * outputs * inputs))))
    x, found = torch.randn(rows, inputs), {}
    for name, hold in HELD.items():
        held = [hold(torch.randn(outputs, inputs)) for _ in range(copies)]
        size = held[0].stored_bytes if isinstance(held[0], Packed) else held[0].nbytes

        def run(held: list[Tensor] = held) -> None:
            for W in held:
                F.linear(x, W)

        each = seconds(run) / copies
        found[name] = {"microseconds": round(each * 1e6, 1), "bytes_per_second": round(size / each)}
    return found


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
    record: dict[str, Any] = {
        "date": date.today().isoformat(), "machine": machine(), "torch": torch.__version__, "threads": torch.get_num_threads(),
    }  # fmt: skip
    with torch.inference_mode():
        record["reading"] = round(reading())
        record["products"] = {f"{rows} x {name}": products(shape, rows) for rows in ROWS for name, shape in MATRICES.items()}
    record["losses"] = {
        f"{name}, {str(dtype).removeprefix('torch.')}": losses(*sizes, dtype)
        for name, sizes in LOSSES.items()
        for dtype in (torch.float32, torch.bfloat16)
    }
    path = RESULTS / "floors.json"
    path.write_text(json.dumps(record, indent=1) + "\n")
    print(path.read_text())


if __name__ == "__main__":
    main()
