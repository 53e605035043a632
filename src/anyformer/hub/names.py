"""Names of models on a hub: `hub:ORG/NAME`, with a GGUF file and a revision where they are given."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from anyformer.describe import UserError

PREFIX = "hub:"
GGUF = ".gguf"
FORM = f"{PREFIX}ORG/NAME, {PREFIX}ORG/NAME@REVISION or {PREFIX}ORG/NAME/FILE{GGUF}"
_WORD = re.compile(r"(?!.*(--|\.\.))[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_OTHER_FORM = re.compile(
    r"(?:hub://|hf://|hf:|huggingface:|(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/)(?:models/)?(?P<rest>[^?#\s]+)"
)
"""What people write in front of a name elsewhere."""
_PAGE = re.compile(r"(?P<model>[^/]+/[^/@:]+)/(?:tree|blob|resolve|raw)/(?P<revision>[^/]+)(?:/(?P<file>.+))?")
"""The address of a page of a model, after the site."""
_FOLDER = re.compile(r"models--(?P<repo>[^/]+)/snapshots/(?P<commit>[0-9a-f]{40})(?:/(?P<file>.+))?$")
"""Where the hub's library keeps the files of a model at one commit, in every tool's cache."""


class HubError(UserError):
    """A model cannot be fetched from a hub or pushed to one; the message says which, why, and the remedy."""


@dataclass(frozen=True)
class HubName:
    """A model on a hub, or the GGUF `file` of one, at a branch, a tag, a pull request or a commit; None: the main branch."""

    repo: str
    file: str | None = None
    revision: str | None = None

    def __str__(self) -> str:
        file = "" if self.file is None else f"/{self.file}"
        return f"{PREFIX}{self.repo}{file}" + ("" if self.revision is None else f"@{self.revision}")

    @property
    def commit(self) -> str | None:
        """The revision, if it is a commit and so the same for ever."""
        return self.revision if self.revision and _COMMIT.fullmatch(self.revision) else None


def is_hub(place: object) -> bool:
    """Whether a place is the name of a model on a hub."""
    return str(place).startswith(PREFIX)


def parsed(place: str | Path) -> HubName:
    """The parts of a name. Raises `HubError` for another form, with the right one where it can be told."""
    text = str(place)
    if near := suggested(text):
        raise HubError(f"{text}: a model of a hub is named as {FORM}; did you mean {near}?")
    body, at, revision = text.removeprefix(PREFIX).partition("@")
    if at and (not revision or re.search(r"\s|\.\.|^/|/$", revision)):
        raise HubError(f"{text}: {revision!r} is no branch, tag or commit; leave @{revision} out for the main branch")
    first, *others = body.split("/")
    if first in ("datasets", "spaces") and len(others) > 1:
        raise HubError(f"{text}: models are read from a hub, and this is one of its {first}; see docs/data.md for data")
    model, file = "/".join([first, *others[:1]]), "/".join(others[1:]) or None
    for word in model.split("/"):
        if not _WORD.fullmatch(word):
            raise HubError(f"{text}: {word!r} is no name on a hub (letters, digits, and - _ . between them); a name is {FORM}")
    if file is not None and not file.endswith(GGUF):
        raise HubError(
            f"{text}: of a model's files a GGUF file alone is named; {file!r} is none: give {PREFIX}{model} for the model"
        )
    return HubName(model, file, revision or None)


def suggested(text: str) -> str | None:
    """The name that another form, such as an address of a browser, stands for; None of what is no such form."""
    found = _OTHER_FORM.fullmatch(text)
    rest = found["rest"].strip("/") if found else text.removeprefix(PREFIX) if is_hub(text) else ""
    if page := _PAGE.fullmatch(rest):
        file = page["file"] if page["file"] and page["file"].endswith(GGUF) else None
        return str(HubName(page["model"], file, page["revision"]))
    if is_hub(text) and (misplaced := re.fullmatch(r"([^/@]+/[^/@:]+)[:#]([^/@:]+)", rest)):
        return str(HubName(misplaced[1], None, misplaced[2]))
    return f"{PREFIX}{rest}" if found and rest.count("/") == 1 else None


def looks_like_a_model(text: str) -> bool:
    """Whether a text has the form ORG/NAME, which other tools take for a model of a hub."""
    return text.count("/") == 1 and all(_WORD.fullmatch(word) for word in text.split("/"))


def pinned(path: str | Path) -> str | None:
    """The name, with its commit, of what a path of the hub's cache holds; None of any other path.

    What is written names this, and not a path of one machine.
    """
    found = _FOLDER.search(Path(path).as_posix())
    if found is None:
        return None
    return str(HubName(found["repo"].replace("--", "/"), found["file"], found["commit"]))
