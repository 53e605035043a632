"""A graph that was written, tried in ONNX Runtime on inputs of other sizes than it was made with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch

from anyformer.exporting.graph import Graph
from anyformer.exporting.graphs import ExportError
from anyformer.exporting.port import BATCH, FRAMES, LENGTH, PAST, PAST_SOURCE, SAMPLES, SOURCE, TOTAL

_CLOSE: Final = {torch.float32: 1e-3, torch.float16: 3e-2}
"""How far numbers may be apart, of the largest among them."""
_PROMPT: Final = {
    BATCH: 3, LENGTH: 7, PAST: 0, TOTAL: 7, SOURCE: 9, PAST_SOURCE: 0, FRAMES: 22, SAMPLES: 2000,
}  # fmt: skip
_STEP: Final = _PROMPT | {BATCH: 1, LENGTH: 1, PAST: 11, TOTAL: 12, PAST_SOURCE: 8}
"""Sizes of a prompt without a past, and of a step behind one; none as in `TRACED`."""


def prove(graph: Graph, path: Path) -> float:
    """The largest difference between ONNX Runtime and this module, of the largest number; `ExportError` beyond rounding."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    cached = any(PAST in port.shape for port in graph.inputs)
    worst = max(_apart(graph, session, sizes) for sizes in (_PROMPT, *((_STEP,) if cached else ())))
    close = _CLOSE[next(graph.model.parameters()).dtype]
    if not worst <= close:
        raise ExportError(
            f"{path.name}: ONNX Runtime {onnxruntime.__version__} computes numbers that are {worst:.1e} of the largest away "
            f"from this model's, and {close:.0e} would be rounding: nothing is written; please report the architecture"
        )
    return worst


def _apart(graph: Graph, session: Any, sizes: Mapping[str, int]) -> float:
    """How far any output is from the module's, of its largest number."""
    given = [port.example(sizes, number) for number, port in enumerate(graph.inputs)]
    made = session.run(None, {port.name: tensor.numpy() for port, tensor in zip(graph.inputs, given, strict=True)})
    with torch.no_grad():
        wanted = graph(*given)
    apart = 0.0
    for mine, theirs in zip(map(torch.as_tensor, made), wanted, strict=True):
        if mine.shape != theirs.shape:
            return float("inf")
        apart = max(apart, float((mine.float() - theirs.float()).abs().max() / theirs.abs().max().clamp(min=1e-6)))
    return apart
