"""The columns computed from descriptions against the table of the notes; docs/reference/notes.md says why they differ."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from anyformer.catalogue import listing

HERE = Path(__file__).parent
ROWS = tomllib.loads((HERE / "notes_table.toml").read_text(encoding="utf-8"))["row"]
ENTRIES = {entry.name: entry for entry in listing()}
DIFFER = {
    ("lamda-137b", "year"),
    ("gopher-280b", "activation"),
    ("chinchilla-70b", "activation"),
    ("palm-540b", "norm"),
    ("gpt-4", "pre_norm"),
    ("phi-3-small", "norm"),
    ("olmo-7b", "norm"),
    ("qwen-14b", "year"),
    ("command-r-plus", "tricks"),
    ("mixtral-8x7b", "pre_norm"),
    ("gemma-3-27b", "pre_norm"),
}
"""The cells that the notes have wrong, or that nobody can know; each is told in docs/reference/notes.md."""
POSITIONS = {
    "Sine": "sinusoidal",
    "Absolute": "learned",
    "Relative": "relative",
    "AllBi": "ALiBi",
    "Hybrid (RoPE+NoPE)": "RoPE+NoPE",
}
ACTIVATIONS = {"GeLU": "GELU", "SqRelu": "ReLU²"}
NAMED_TRICKS = {"QK-norm": "QK-norm", "logit soft-cap": "Logit soft capping", "z-loss": "Z-loss"}


def ours(name: str) -> dict:
    """A row of the catalogue in the words of the notes."""
    entry = ENTRIES[name]
    columns = entry.columns
    tricks = {NAMED_TRICKS[trick] for trick in (*columns.stability, *entry.training) if trick in NAMED_TRICKS}
    return {
        "year": entry.year,
        "norm": columns.norm,
        "layers": columns.wiring.capitalize(),
        "pre_norm": columns.placement in ("pre", "sandwich"),
        "position": columns.position,
        "activation": columns.activation,
        "tricks": tricks | ({"Pre+post norm"} if columns.placement == "sandwich" else set()),
    }


def notes(row: dict) -> dict:
    """The cells that are filled, in one spelling."""
    words = {"position": POSITIONS, "activation": ACTIVATIONS}
    cells = {key: words.get(key, {}).get(value, value) for key, value in row.items() if key not in ("name", "entry", "tricks")}
    filled = "norm" in row
    return cells | ({"tricks": set(row.get("tricks", ()))} if filled else {})


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["entry"])
def test_the_columns_are_those_of_the_notes_but_where_the_notes_are_wrong(row):
    name, there = row["entry"], ours(row["entry"])
    differ = {(name, cell) for cell, value in notes(row).items() if there[cell] != value}
    assert differ == {pair for pair in DIFFER if pair[0] == name}


def test_all_37_rows_are_there():
    assert len(ROWS) == len({row["entry"] for row in ROWS}) == 37


def test_every_difference_is_told():
    told = (HERE.parents[1] / "docs" / "reference" / "notes.md").read_text(encoding="utf-8")
    for name, _ in DIFFER:
        assert f"`{name}`" in told, name
