"""A directory for ONNX Runtime, as transformers.js looks for one: graphs in `onnx/`, and what stands beside weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import torch

from anyformer import huggingface
from anyformer.exporting.graphs import ExportError, graphs_of
from anyformer.exporting.onnx_files import check_installed, write_graph
from anyformer.exporting.proof import prove
from anyformer.files import check_directory, writing_directory
from anyformer.huggingface.digests import write_digests
from anyformer.model.transformer import Transformer
from anyformer.text import Tokenizer
from anyformer.text.beside import Beside

FOLDER: Final = "onnx"
ENDINGS: Final = {torch.float32: "", torch.float16: "_fp16"}
"""Type of the weights -> the ending of a file's name, by which transformers.js knows it."""
_LEFT_OUT: Final = (".safetensors", ".safetensors.index.json", "digests.json", "README.md")
"""Weights, and what is said of them."""


@dataclass(frozen=True)
class OnnxExport:
    """What was written: the model type of the configuration, and how far each graph was from the model in ONNX Runtime, by the
    name of its file, of the largest number."""

    model_type: str
    apart: Mapping[str, float]


def export_onnx(
    model: Transformer,
    directory: str | Path,
    *,
    tokenizer: Tokenizer | None = None,
    beside: Beside | None = None,
    model_type: str | None = None,
    length: int | None = None,
    labels: Sequence[str] = (),
) -> OnnxExport:
    """Write graphs of a model in fp32 or fp16 into `onnx/`, and configuration and tokenizer as `huggingface.export` does.

    Build or load it with `Plan(attention="plain")`: other kernels have no form in ONNX. A model that generates has its cache as
    inputs and outputs, one graph for the prompt and for every step after it; batch and lengths are free, and padding may stand
    on either side. Every graph is tried in ONNX Runtime before the directory appears, whole or not at all. `ExportError`: what
    has no form in ONNX, by its part. Arguments as in `huggingface.export`.
    """
    directory = Path(directory)
    check_directory(directory)
    check_installed()
    dtype = next(model.parameters()).dtype
    if dtype not in ENDINGS:
        raise ExportError(f"the weights are {dtype}, and ONNX Runtime computes in fp32 or fp16: load the model in one of them")
    graphs = graphs_of(model)
    with writing_directory(directory) as partial, TemporaryDirectory(dir=directory.absolute().parent) as scratch:
        apart, outside = {}, {}
        for name, graph in graphs.items():
            path = partial / FOLDER / f"{name}{ENDINGS[dtype]}.onnx"
            if write_graph(graph, path):
                outside[path.name] = 1
            apart[path.name] = prove(graph, path)
        family = huggingface.export(
            model, Path(scratch) / "model", tokenizer=tokenizer, beside=beside, model_type=model_type, length=length,
            labels=labels, extra=_for_browsers(dtype, outside, two=model.architecture.two_inputs),
        )  # fmt: skip
        for file in (Path(scratch) / "model").iterdir():
            if not file.name.endswith(_LEFT_OUT):
                file.rename(partial / file.name)
        write_digests(partial)
    return OnnxExport(family.model_type, apart)


def _for_browsers(dtype: torch.dtype, outside: Mapping[str, int], *, two: bool) -> dict[str, Any]:
    """What transformers.js has to know: which of the types it knows the file has, which files have weights beside them, and
    that a model has two inputs, which transformers knows by its class."""
    told: dict[str, Any] = {"dtype": ENDINGS[dtype].removeprefix("_") or "fp32"}
    if ENDINGS[dtype]:
        told["kv_cache_dtype"] = {told["dtype"]: "float16"}
    told |= {"use_external_data_format": dict(outside)} if outside else {}
    return {"transformers.js_config": told} | ({"is_encoder_decoder": True} if two else {})
