"""vLLM's server: rightly, and with files that are wrong for the model."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.engines.distorted import CHUNK
from benchmarks.engines.served import WINDOW, Served, Way
from benchmarks.engines.vllm import ENVIRONMENT


def _command(program: Path, model: Path, port: int, way: Way) -> list[str]:
    sizes = ["--max-model-len", "640", "--max-num-seqs", "8", "--max-num-batched-tokens", str(CHUNK), "--enable-prefix-caching"]
    kind = {"fp32": "float32", "bf16": "bfloat16"}[way.dtype]
    words = [
        str(program),
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--model",
        str(model),
        "--dtype",
        kind,
        "--enforce-eager",
    ]
    return [*words, "--host", "127.0.0.1", "--port", str(port), *sizes, *way.options]


def _table(file: str, **changes: Any) -> Callable[[Path, Path], Path]:
    """A copy of the directory whose JSON file says something else."""

    def changed(model: Path, place: Path) -> Path:
        copy = place / "changed"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(model, copy)
        table = json.loads((copy / file).read_text(encoding="utf-8"))
        assert table.keys() >= changes.keys(), f"{file} has none of {changes.keys() - table.keys()}"
        (copy / file).write_text(json.dumps({**table, **changes}), encoding="utf-8")
        return copy

    return changed


def _config(**changes: Any) -> Callable[[Path, Path], Path]:
    return _table("config.json", **changes)


OTHER_BASE = {"rope_type": "default", "rope_theta": 5e3}
SERVED = Served(
    _command,
    (
        Way("right, in fp32", distorted=True),
        Way("right, in bf16", model="bf16", dtype="bf16", cache="bf16"),
        Way("the base of the rotary frequencies", "plain", change=_config(rope_parameters=OTHER_BASE)),
        Way("a norm 38 % off in one layer", "plain", change=lambda model, place: place / "norm"),
        Way("no cap of logits", "plain", change=_config(final_logit_softcapping=None)),
        Way("an end token that it does not know", "ends", change=_table("generation_config.json", eos_token_id=0)),
        Way("a window one too long", "windowed", change=_config(sliding_window=WINDOW + 1)),
        Way("no window", "windowed", change=_config(layer_types=["full_attention"] * 4)),
    ),
    environment=ENVIRONMENT,
)
