"""Engines that serve a tiny model rightly and wrongly, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import torch
from benchmarks.engines.models import exported, made, table_of
from benchmarks.engines.scratch import OFFLINE

import anyformer as af
from anyformer.conforming import CompletionServer, open_server
from anyformer.data import BytePairs
from anyformer.data.vocabulary import make_tokenizer
from anyformer.text import Specials, Tokenizer
from anyformer.text.beside import GENERATION, Beside
from anyformer.text.specials import SPEAKING

WINDOW = 80
SIZES = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 32, "max_position_embeddings": 1024, "query_pre_attn_scalar": 32, "sliding_window": WINDOW,
    "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
}  # fmt: skip
WAIT = 300
"""Seconds within which a server must be there."""


@dataclass(frozen=True)
class Way:
    """One way to serve: `model`: a name of `MODELS`; `dtype`, `cache`: of its arithmetic, and its keys and values. `options`:
    of the program. `case`: the one that must name what is wrong with it; None where nothing is. `distorted`: its answers are
    distorted too."""

    name: str
    case: str | None = None
    model: str = "fp32"
    dtype: str = "fp32"
    cache: str = "fp32"
    options: tuple[str, ...] = ()
    change: Callable[[Path, Path], Path] = lambda model, place: model
    distorted: bool = False


@dataclass(frozen=True)
class Served:
    """`command`: the words that serve a model of a path at a port. `suffix`: of the model that it reads, "" for a directory."""

    command: Callable[[Path, Path, int, Way], list[str]]
    ways: tuple[Way, ...]
    suffix: str = ""
    environment: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Outcome:
    """What `conform` says: the first case that departs, and where; `case`: the one that must, None of a right engine."""

    engine: str
    name: str
    arithmetic: str
    case: str | None
    found: str | None
    where: str
    asked: tuple[str, ...]
    largest: float
    """Largest difference of the cases that do not depart, in nats."""

    @property
    def expected(self) -> bool:
        return self.case == self.found

    @property
    def told(self) -> str:
        """A line for the screen."""
        verdict = "right" if self.found is None else f"{self.found} departs, {self.where}"
        wanted = "" if self.expected else f" (NOT AS IT SHOULD: {self.case or 'right'})"
        return f"{self.name}: {verdict}{wanted}; {len(self.asked)} cases, others within {self.largest:.1e}"


def tokenizer() -> Tokenizer:
    """Byte pairs, of a few hundred tokens."""
    text = "A model reads some words, and says which come next. The words are few, and so are the tokens, 12 of 34 or 567.\n"
    made = make_tokenizer(BytePairs(vocab=320), lambda: [text * 20], list, Specials(roles=SPEAKING))
    ends = json.dumps({"eos_token_id": [made.end, made.special("turn_end")]}).encode()
    return Tokenizer.of(Beside({**made.beside.files, GENERATION: ends}))


def written(place: Path, name: str, change: Callable[[torch.nn.Module], Any], suffix: str) -> None:
    """A model under its name in a folder, as a directory, and where `suffix` says so as a file beside it."""
    words = tokenizer()
    model = made(table_of("gemma2", vocab_size=words.vocab_size, **SIZES))
    change(model)
    exported(model, place / name, tokenizer=words)
    if suffix:
        (place / f"{name}{suffix}").unlink(missing_ok=True)
        af.export_gguf(model, place / f"{name}{suffix}", tokenizer=words)


def _off(model: torch.nn.Module) -> None:
    """One norm's gain is 38 % off."""
    name = next(name for name, parameter in model.named_parameters() if parameter.ndim == 1)
    with torch.no_grad():
        model.get_parameter(name).add_(0.38)


MODELS: Mapping[str, Callable[[torch.nn.Module], Any]] = {
    "fp32": lambda model: None,
    "bf16": lambda model: model.to(torch.bfloat16),
    "norm": _off,
}
"""Models by name, and what each has different."""


@contextmanager
def running(engine: Served, way: Way, program: Path, place: Path, port: int) -> Iterator[CompletionServer]:
    """The engine's server while it runs."""
    model = way.change(place / f"{way.model}{engine.suffix}", place)
    words = engine.command(program, model, port, way)
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | OFFLINE
    log = place / "server.log"
    with (
        log.open("w", encoding="utf-8") as messages,
        subprocess.Popen(words, stdout=messages, stderr=messages, env={**kept, **(engine.environment or {})}) as process,
    ):
        try:
            _awaited(f"http://127.0.0.1:{port}/health", process, log)
            yield open_server(f"http://127.0.0.1:{port}")
        finally:
            process.terminate()
            process.wait(timeout=60)


def _awaited(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(2 * WAIT):
        if process.poll() is not None:
            break
        try:
            with urlopen(url, timeout=5) as answer:
                if answer.status == 200:
                    return
        except (URLError, OSError):
            time.sleep(0.5)
    raise subprocess.SubprocessError(f"{process.args}: {log.read_text(encoding='utf-8')[-2000:]}")
