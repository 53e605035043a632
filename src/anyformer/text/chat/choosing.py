"""The chat templates that a tokenizer has, by name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any

from anyformer.text.beside import TEMPLATE, TEMPLATES
from anyformer.text.chat.conversation import Chat
from anyformer.text.errors import DataError
from anyformer.text.tokenizers import Tokenizer

DEFAULT, TOOLS, TRAINING = "default", "tool_use", "training"
"""Names with a meaning: the usual template, that for chats with tools, and that to train by."""


def templates(tokenizer: Tokenizer) -> Mapping[str, str]:
    """Name -> template of every chat template of a tokenizer: as in transformers those in files, else the configuration's."""
    beside, folder = tokenizer.beside, f"{TEMPLATES}/"
    names = {DEFAULT: TEMPLATE} | {PurePosixPath(name).stem: name for name in beside.files if name.startswith(folder)}
    files = {name: text for name, file in names.items() if (text := beside.text(file)) is not None}
    return files or _named(tokenizer.config.get("chat_template"))


def _named(found: Any) -> dict[str, str]:
    if isinstance(found, str):
        return {DEFAULT: found}
    if isinstance(found, Mapping):
        return {name: text for name, text in found.items() if isinstance(text, str)}
    if isinstance(found, list):
        return {
            each["name"]: each["template"]
            for each in found
            if isinstance(each, Mapping) and isinstance(each.get("name"), str) and isinstance(each.get("template"), str)
        }
    return {}


def template_of(tokenizer: Tokenizer, chat: Chat) -> str:
    """The template that writes a chat; `DataError` says which there are."""
    return named_template(tokenizer, chat.template, tools=chat.tools is not None)


def named_template(tokenizer: Tokenizer, name: str | None, tools: bool = False) -> str:
    """A template by name, by path, or as its own text; `training`: the one of this name, else TRL's for the default one."""
    own = templates(tokenizer)
    if name is None:
        if not own:
            raise DataError(
                "this tokenizer has no chat template: give a directory whose tokenizer_config.json has `chat_template`, name "
                "a file with `template`, or learn a tokenizer here, which then has one"
            )
        name = TOOLS if tools and TOOLS in own else DEFAULT
        if name not in own:
            raise DataError(f"this tokenizer has several chat templates and none is the default: name one of {_listed(own)}")
    if name in own:
        return own[name]
    if "{%" in name or "{{" in name:
        return name
    if Path(name).suffix == ".jinja" or Path(name).is_file():
        try:
            return Path(name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"template = {name!r}: cannot be read ({error})") from None
    theirs = _of_trl()
    if name == TRAINING and DEFAULT in own:
        return _training(own[DEFAULT], theirs)
    if name in theirs:
        return theirs[name].read_text(encoding="utf-8")
    more = f", and TRL has {', '.join(sorted(theirs))}" if theirs else "; with TRL installed its templates have names too"
    raise DataError(f"template = {name!r}: no such file or template; this tokenizer has {_listed(own)}{more}")


def _training(template: str, theirs: Mapping[str, Path]) -> str:
    """TRL's changed form of one of the templates that it knows."""
    for name, path in theirs.items():
        if f"{name}_{TRAINING}" in theirs and path.read_text(encoding="utf-8") == template:
            return theirs[f"{name}_{TRAINING}"].read_text(encoding="utf-8")
    if not theirs:
        raise DataError(
            "template = 'training': this tokenizer has no template of this name, and TRL, which has some, is not installed: "
            "install trl, or give the path of a template"
        )
    raise DataError(
        "template = 'training': this tokenizer has no template of this name, and TRL has none for its default one: leave "
        "template out, or give the path of one with {% generation %} marks"
    )


@lru_cache(maxsize=1)
def _of_trl() -> Mapping[str, Path]:
    """The templates of TRL, if it is installed, by name; nothing of it is imported."""
    spec = find_spec("trl")
    folders = [] if spec is None else spec.submodule_search_locations or []
    return {path.stem: path for folder in folders for path in sorted(Path(folder, "chat_templates").glob("*.jinja"))}


def _listed(names: Mapping[str, str]) -> str:
    return ", ".join(sorted(names)) or "none"
