"""Statements of the lecture notes on single systems, against the columns. docs/reference/notes.md explains their mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyformer.catalogue import listing

COLUMNS = {entry.name: entry.columns for entry in listing()}
ENCODERS = ("bert-base-uncased", "roberta-base", "deberta-base", "electra-base", "sentence-bert-base")
DECODERS = (
    "gpt2", "gpt3-175b", "llama-7b", "mistral-7b-v0.1", "falcon-40b", "bloom-176b", "opt-175b", "pythia-12b", "code-llama-34b",
    "starcoder",
)  # fmt: skip
STATED = {
    # "LLM training notes", sections 4.2 and 4.4
    ("palm-540b", "attention"): "MQA",
    ("llama-7b", "attention"): "MQA",
    ("llama-2-7b", "attention"): "GQA",
    ("llama-2-70b", "attention"): "GQA",
    ("mistral-7b-v0.1", "attention"): "GQA",
    # section 4.7
    ("transformer-base", "placement"): "post",
    ("gpt2", "placement"): "pre",
    ("gpt3-175b", "placement"): "pre",
    ("t5-11b", "placement"): "pre",
    ("llama-7b", "placement"): "pre",
    ("palm-540b", "placement"): "pre",
    ("perceiver-imagenet", "placement"): "pre",
    # sections 8.1 and 8.2, and 4.5 for the encoder-decoders
    **{(name, "shape"): "encoder-only" for name in ENCODERS},
    **{(name, "shape"): "decoder-only" for name in DECODERS},
    ("t5-base", "shape"): "encoder-decoder",
    ("bart-large", "shape"): "encoder-decoder",
    # section 8.9
    ("palm-540b", "wiring"): "parallel",
    ("gpt-jt-6b", "wiring"): "parallel",
}
WRONG = {("llama-7b", "attention"), ("llama-2-7b", "attention")}
"""Statements that sources contradict; each is told in docs/reference/notes.md."""


@pytest.mark.parametrize(("name", "column"), STATED)
def test_what_the_notes_say_of_a_system_holds_but_where_they_err(name, column):
    agrees = getattr(COLUMNS[name], column) == STATED[name, column]
    assert agrees == ((name, column) not in WRONG)


def test_every_error_is_told():
    told = (Path(__file__).parents[2] / "docs" / "reference" / "notes.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in told for name, _ in WRONG)
