"""ONNX Runtime beside this package: directories of `anyformer export --format onnx`, in fp32 on a processor.

Run it by an interpreter that has the extra `onnx`, which writes the graphs.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from benchmarks.engines.engine import Engine
from benchmarks.engines.models import NEW, PROMPTS, exported
from benchmarks.engines.onnx_types import OWN, TYPES, model_of
from benchmarks.engines.ours import greedy
from benchmarks.engines.row import Quantity, Row
from benchmarks.engines.scratch import Scratch
from torch import Tensor

import anyformer as af
from anyformer.cli.export_options import FormOptions
from anyformer.cli.exports import ExportRequest, written
from anyformer.describe import UserError

READER = Path(__file__).with_name("read_onnx.py")
START = 2
"""The first token of a target."""
FRAMES = 60


def question(name: str, place: Path, model: af.Transformer) -> dict[str, Any]:
    """What ONNX Runtime is asked about one model, which is exported as a user does."""
    target = place / f"{name}-onnx"
    shutil.rmtree(target, ignore_errors=True)
    written(ExportRequest(exported(model, place / name), target, FormOptions("onnx")))
    asked = {"name": name, "directory": str(target), "new": NEW, "prompts": PROMPTS, "start": START, "rows": len(PROMPTS)}
    given = numbers(model)
    return asked if given is None else asked | {"numbers": (given[0], given[1].tolist()), "rows": len(given[1])}


def numbers(model: af.Transformer) -> tuple[str, Tensor] | None:
    """What a model that reads no text is asked about, by the name of the graph's input; None for a text."""
    read = model.architecture.embedding
    drawn = torch.Generator().manual_seed(1)
    if read.symbols is not None:
        return None
    if read.cells is not None:
        return "pixel_values", torch.randn(3, 3, 24, 24, generator=drawn)
    return "input_features", torch.randn(3, read.example(1, 1).shape[-1], FRAMES, generator=drawn)


@torch.inference_mode()
def expected(model: af.Transformer, row: int, start: int = START) -> tuple[list[int], Tensor]:
    """The tokens that follow a row, and the numbers after every position that ONNX Runtime gives."""
    given = numbers(model)
    if model.architecture.two_inputs:
        source = torch.tensor([PROMPTS[row]]) if given is None else given[1][row : row + 1].mT
        target = torch.tensor([[start]])
        for _ in range(NEW):
            target = torch.cat([target, model(source, target)[:, -1:].argmax(-1)], 1)
        return target[0, 1:].tolist(), model(source, target)[0, :NEW]
    if model.architecture.decoder is not None:
        prompt = list(PROMPTS[row])
        tokens = greedy(model, prompt, NEW)
        return tokens, model(torch.tensor([[*prompt, *tokens]]))[0]
    read = model(torch.tensor([PROMPTS[row]]) if given is None else given[1][row : row + 1])[0]
    return [], read if read.dim() > 1 else read[None]


def row(
    name: str, way: str, version: str, model: af.Transformer, answers: Sequence[Mapping[str, Any]], start: int = START
) -> Row:
    """The answers about a model beside its own.

    Of a model that generates nothing the positions are compared in the place of tokens: the largest number after each.
    """
    count, equal, worst, own = 0, 0, 0.0, {each: expected(model, each, start) for each in {answer["row"] for answer in answers}}
    for answer in answers:
        tokens, numbers_of = own[answer["row"]]
        read = torch.tensor(answer["read"])
        mine, theirs = (tokens, answer["tokens"]) if tokens else (numbers_of.argmax(-1).tolist(), read.argmax(-1).tolist())
        count += len(mine)
        equal += sum(left == right for left, right in zip(mine, theirs, strict=True))
        apart = (read - numbers_of[: len(read)]).abs()
        apart[:, answer.get("untold", [])] = 0.0
        worst = max(worst, float(apart.max()))
    cases = tuple(dict.fromkeys(answer["case"] for answer in answers))
    quantity: Quantity = "hidden states" if model.architecture.head_table is None else "logits"
    note = "" if model.architecture.decoder is not None else "without a cache; the likeliest of every position is compared"
    return Row(name, way, "f32", version, cases, count, equal, worst, quantity, note=note)


def way(name: str) -> str:
    """What was exported."""
    return "own layout" if name in OWN else "model type"


def rows(scratch: Scratch) -> Iterator[Row]:
    """A row for every type, and for every own layout."""
    version = scratch.versions("onnxruntime")["onnxruntime"]
    for name in scratch.names:
        model = model_of(name)
        try:
            asked = question(name, scratch.place, model)
        except UserError as error:
            yield Row(name, way(name), "f32", version, reason=str(error))
        else:
            yield row(name, way(name), version, model, list(scratch.answers(READER, [asked])))


ENGINE = Engine((*TYPES, *OWN), ("onnxruntime", "onnx", "onnxscript", "torch"), rows)
