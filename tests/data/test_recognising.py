"""Records are recognised by their fields."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from anyformer.catalogue import architecture
from anyformer.data import Chats, Completions, Dialogue, Preferences, Prompts
from anyformer.data.recognising import recognised
from anyformer.text import DataError

TURNS = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
SAID = [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]
LLAMA = architecture("llama-12m", tiny=True)


def written(tmp_path: Path, row: Any, name: str = "rows.jsonl") -> tuple[str]:
    (tmp_path / name).write_text((row if isinstance(row, str) else json.dumps(row)) + "\n")
    return (str(tmp_path / name),)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"messages": TURNS, "id": 1}, {"kind": "chats"}),
        ({"conversations": SAID}, {"kind": "chats", "messages": "conversations"}),
        ({"prompt": "a", "completion": "b"}, {"kind": "completions"}),
        ({"prompt": "a", "completion": "b", "label": True}, {"kind": "judgements"}),
        ({"prompt": TURNS[:1], "completion": TURNS[1:]}, {"kind": "completions"}),
        ({"prompt": "a", "chosen": "b", "rejected": "c"}, {"kind": "preferences"}),
        ({"chosen": TURNS, "rejected": TURNS}, {"kind": "preferences"}),
        ({"instruction": "a", "input": "", "output": "b"},
         {"kind": "prompts", "prompt": "instruction", "answer": "output", "input": "input"}),
        ({"instruction": "a", "output": "b"}, {"kind": "prompts", "prompt": "instruction", "answer": "output"}),
        ({"prompt": "a", "answer": "b", "system": "c"}, {"kind": "prompts", "system": "system"}),
        ({"source": "a", "target": "b"}, {"kind": "pairs"}),
        ({"text": "a"}, {"kind": "text"}),
        ({"messages": "no turns", "text": "a"}, {"kind": "text"}),
        ({"question": "a", "reply": "b"}, None),
    ],
)  # fmt: skip
def test_forms(tmp_path, row, expected):
    found = recognised(written(tmp_path, row))
    assert (None if found is None else found.table) == expected


def test_running_text_is_no_record(tmp_path):
    assert recognised(written(tmp_path, "once upon", "text.txt")) is None
    assert recognised(written(tmp_path, "{", "broken.jsonl")) is None


@pytest.mark.parametrize(
    ("base", "row", "kind"),
    [
        (Dialogue, {"messages": TURNS}, Chats),
        (Dialogue, {"instruction": "a", "output": "b"}, Prompts),
        (Dialogue, {"prompt": "a", "completion": "b", "chosen": "c", "rejected": "d"}, Completions),
        (Dialogue, {"prompt": "a", "completion": "b", "label": False}, Completions),
        (Preferences, {"prompt": "a", "completion": "b", "chosen": "c", "rejected": "d"}, Preferences),
    ],
)
def test_the_data_of_an_objective_is_of_its_family(tmp_path, base, row, kind):
    paths = written(tmp_path, row)
    made = base.usual(LLAMA, paths)
    assert type(made) is kind
    assert made.paths == paths
    assert made == type(made).parse(made.plain())


def test_unknown_fields_are_listed_with_the_forms_and_kinds(tmp_path):
    with pytest.raises(
        DataError,
        match=r"rows\.jsonl:1: its fields are question, reply, and none of the forms that are read here: chats in `messages`.*"
        r"--set data\.kind=chats; the kinds are chats, completions, prompts",
    ):
        Dialogue.usual(LLAMA, written(tmp_path, {"question": "a", "reply": "b"}))
    with pytest.raises(DataError, match=r"its fields are text, which are running text in `text` \(kind 'text'\)"):
        Dialogue.usual(LLAMA, written(tmp_path, {"text": "a"}))
    with pytest.raises(DataError, match=r"text\.txt: holds no records, which are wanted here: chats"):
        Dialogue.usual(LLAMA, written(tmp_path, "once upon", "text.txt"))
