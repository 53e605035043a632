"""CTranslate2 beside this package: directories of `anyformer export --format ctranslate2`, in fp32 on a processor.

Run it by an interpreter that has the extra `ctranslate2`, whose converter writes the directories.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.engines.ctranslate2_types import TYPES, WORDS, add_words, model_of
from benchmarks.engines.engine import Engine
from benchmarks.engines.models import NEW, PROMPTS, exported, table_of
from benchmarks.engines.onnx import expected, row
from benchmarks.engines.row import Row
from benchmarks.engines.scratch import Scratch

import anyformer as af
from anyformer.cli.export_options import FormOptions
from anyformer.cli.exports import ExportRequest, written
from anyformer.describe import UserError

READER = Path(__file__).with_name("read_ctranslate2.py")
WAY, PRECISION = "model type", "f32"


def question(name: str, place: Path, model: af.Transformer) -> dict[str, Any]:
    """What CTranslate2 is asked about one model, which is exported as a user does."""
    source, target = exported(model, place / name), place / f"{name}-ctranslate2"
    add_words(source)
    shutil.rmtree(target, ignore_errors=True)
    written(ExportRequest(source, target, FormOptions("ctranslate2")))
    kind = "translator" if model.architecture.two_inputs else "generator" if model.architecture.decoder else "encoder"
    asked = {"name": name, "directory": str(target), "kind": kind, "new": NEW, "prompts": PROMPTS}
    start = table_of(name, **TYPES[name]).get("decoder_start_token_id") or 0
    # Its end is a word that no answer has, so that none is cut short; the engine gives no number for it.
    said = {token for number in range(len(PROMPTS)) for token in expected(model, number, start)[0]}
    end = max(set(range(len(WORDS))) - said)
    return asked | {"words": WORDS, "start": start, "end": end}


def rows(scratch: Scratch) -> Iterator[Row]:
    """A row for every type."""
    version = scratch.versions("ctranslate2")["ctranslate2"]
    for name in scratch.names:
        model = model_of(name)
        try:
            asked = question(name, scratch.place, model)
        except UserError as error:
            yield Row(name, WAY, PRECISION, version, reason=str(error))
        else:
            yield row(name, WAY, version, model, list(scratch.answers(READER, [asked])), asked["start"])


ENGINE = Engine(tuple(TYPES), ("ctranslate2", "transformers", "torch"), rows)
