"""A row of the table of engines: what one engine made of one exported model, beside what this package computes."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any, Literal

from benchmarks.sitting import RESULTS

FOLDER = RESULTS / "engines"
INSTRUCTIONS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8")
"""Flags of a processor by which engines choose their kernels."""
Quantity = Literal["logits", "log-probabilities", "hidden states"]


@dataclass(frozen=True)
class Row:
    """One model in one engine.

    `name`: a model type, one of our own layouts, or a tokenizer. `way`: how the engine opens it ("native class", "GGUF q8_0").
    `precision`: of weights and arithmetic. `cases`: the calls that were compared. `tokens` were compared and `equal` of them
    are those of this package; `difference` is the largest absolute one of all numbers of the `quantity`, None where the engine
    gives none. `reason`: why it could not run, or was not asked; nothing was compared then. `note`: what a reader must know of
    a row that ran. `departs`: what the engine computes otherwise than transformers, where it does.
    `version`: of the engine. `processor` and its `flags`: where it ran.
    """

    name: str
    way: str
    precision: str
    version: str
    cases: tuple[str, ...] = ()
    tokens: int = 0
    equal: int = 0
    difference: float | None = None
    quantity: Quantity = "log-probabilities"
    reason: str = ""
    note: str = ""
    departs: str = ""
    processor: str = ""
    flags: tuple[str, ...] = ()
    date: str = ""

    def __post_init__(self) -> None:
        if bool(self.reason) == bool(self.tokens):
            raise ValueError(f"a row has tokens that were compared or a reason why there are none: {self}")

    @property
    def key(self) -> tuple[str, str, str]:
        """By which a new row takes an old one's place."""
        return self.name, self.way, self.precision

    def same(self, close: float) -> bool:
        """Whether every token is equal and no number further away than `close`."""
        return not self.reason and self.tokens == self.equal and (self.difference is None or self.difference <= close)

    def told(self, close: float) -> str:
        """A line for the screen."""
        head = f"{self.name} ({self.way}, {self.precision})"
        if self.reason:
            return f"{head}: not compared: {self.reason}"
        numbers = "" if self.difference is None else f", {self.quantity} within {self.difference:.1e}"
        verdict = "equal" if self.same(close) else f"other by design: {self.departs}" if self.departs else "DIFFERENT"
        return f"{head}: {verdict}: {self.equal} of {self.tokens} tokens{numbers}"


@dataclass(frozen=True)
class Table:
    """The rows of one engine, by what they are of; `close`: what numbers may differ by; `versions`: of the libraries of the
    engine's environment that matter."""

    engine: str
    close: float
    versions: Mapping[str, str]
    rows: Mapping[tuple[str, str, str], Row]

    def but(self, row: Row, versions: Mapping[str, str]) -> Table:
        """With a row, made here and now."""
        cpu, flags = processor()
        here = {"processor": cpu, "flags": flags, "date": date.today().isoformat()}
        apart = None if row.difference is None else float(f"{row.difference:.2e}")
        made = Row(**{**asdict(row), **here, "difference": apart})
        return Table(self.engine, self.close, {**self.versions, **versions}, {**self.rows, row.key: made})

    def write(self, order: Sequence[str]) -> None:
        """Into the committed file, by `order` of the names."""
        ranks = {name: rank for rank, name in enumerate(order)}
        rows = sorted(self.rows.values(), key=lambda row: (ranks.get(row.name, len(ranks)), row.way, row.precision))
        record = {"engine": self.engine, "close": self.close, "versions": dict(sorted(self.versions.items())), "rows": []}
        for row in rows:
            kept = {key: value for key, value in asdict(row).items() if value not in ("", (), None)}
            record["rows"].append(kept)
        FOLDER.mkdir(exist_ok=True)
        path_of(self.engine).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def path_of(engine: str) -> Path:
    """The file of an engine's rows."""
    return FOLDER / f"{engine}.json"


def read(engine: str, close: float) -> Table:
    """What was compared before, or nothing."""
    path = path_of(engine)
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"versions": {}, "rows": []}
    return Table(engine, close, record["versions"], {row.key: row for row in rows_of(record["rows"])})


def rows_of(kept: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Rows as the file has them."""
    return [Row(**{key: tuple(value) if isinstance(value, list) else value for key, value in each.items()}) for each in kept]


def processor() -> tuple[str, tuple[str, ...]]:
    """The processor's name, and those of its flags by which engines choose kernels."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    told = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    held = told.get("flags", "").split()
    return told.get("model name", platform.processor()), tuple(flag for flag in INSTRUCTIONS if flag in held)
