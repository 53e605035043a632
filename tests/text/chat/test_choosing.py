"""Chat templates by name: those that transformers would take."""

from __future__ import annotations

import pytest
from transformers import AutoTokenizer

from anyformer.text import DataError, Tokenizer
from anyformer.text.chat import Chat, named_template, prompt_tokens, templates
from text.chat.folders import CHATML, LOGICS, plain, write

CHAT = [{"role": "user", "content": "a"}]
TOOLS = [{"type": "function", "function": {"name": "f"}}]
SEVERAL = [
    {"name": "default", "template": CHATML},
    {"name": "tool_use", "template": "{{ tools | tojson }}" + CHATML},
    {"name": "rag", "template": "rag" + CHATML},
]


@pytest.mark.parametrize(("template", "tools"), [(None, None), (None, TOOLS), ("rag", None), ("rag", TOOLS)])
def test_a_template_is_chosen_as_transformers_chooses(tmp_path, template, tools):
    where = write(tmp_path, SEVERAL)
    expected = AutoTokenizer.from_pretrained(where).apply_chat_template(
        CHAT, tools=tools, chat_template=template, add_generation_prompt=True, return_dict=True
    )["input_ids"]
    assert prompt_tokens(Tokenizer.load(where), Chat(CHAT, tools=tools, template=template)) == expected


@pytest.mark.parametrize("default", [True, False])
def test_templates_in_files_come_before_the_configuration(tmp_path, default):
    where = write(tmp_path, SEVERAL)
    (where / "additional_chat_templates").mkdir()
    (where / "additional_chat_templates" / "tool_use.jinja").write_text("file" + CHATML)
    if default:
        (where / "chat_template.jinja").write_text("default file" + CHATML)
    expected, tokenizer = AutoTokenizer.from_pretrained(where), Tokenizer.load(where)
    assert templates(tokenizer) == expected.chat_template
    chosen = expected.apply_chat_template(CHAT, tools=TOOLS, add_generation_prompt=True, return_dict=True)["input_ids"]
    assert prompt_tokens(tokenizer, Chat(CHAT, tools=TOOLS)) == chosen


def test_a_template_is_a_path_or_its_own_text_too(tmp_path):
    tokenizer = Tokenizer.load(write(tmp_path / "model", SEVERAL))
    other = plain(LOGICS["thinking"])
    (tmp_path / "own.jinja").write_text(other)
    for name in (str(tmp_path / "own.jinja"), other):
        assert named_template(tokenizer, name) == other


def test_names_that_are_none(tmp_path):
    tokenizer = Tokenizer.load(write(tmp_path / "model", SEVERAL))
    assert list(templates(tokenizer)) == ["default", "tool_use", "rag"]
    with pytest.raises(DataError, match="'rags': no such file or template; this tokenizer has default, rag, tool_use"):
        named_template(tokenizer, "rags")
    none = Tokenizer.load(write(tmp_path / "none", SEVERAL[1:]))
    with pytest.raises(DataError, match="none is the default: name one of rag, tool_use"):
        named_template(none, None)
    assert named_template(none, None, tools=True) == SEVERAL[1]["template"]


def test_the_template_to_train_by(tmp_path, monkeypatch):
    """A template of this name, or TRL's for the default one, found without importing TRL."""
    own = Tokenizer.load(write(tmp_path / "own", [*SEVERAL, {"name": "training", "template": "mine"}]))
    assert named_template(own, "training") == "mine"
    folder = tmp_path / "trl" / "chat_templates"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("raise ImportError")
    (folder / "house.jinja").write_text(CHATML)
    (folder / "house_training.jinja").write_text("theirs {{ messages }}")
    from anyformer.text.chat import choosing as module

    module._of_trl.cache_clear()
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        tokenizer = Tokenizer.load(write(tmp_path / "model", CHATML))
        for name in ("training", "house_training"):
            assert named_template(tokenizer, name) == "theirs {{ messages }}"
        with pytest.raises(DataError, match="TRL has none for its default one"):
            named_template(Tokenizer.load(write(tmp_path / "other", CHATML + " ")), "training")
    finally:
        module._of_trl.cache_clear()
