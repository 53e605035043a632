"""`Beside`: the files that stand beside a model's weights, byte for byte."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Self

from anyformer import hub
from anyformer.describe import json_data
from anyformer.text.errors import DataError

FOLDER = "beside"
"""Where our own checkpoints and corpora keep these files."""
TOKENIZER, TOKENIZER_CONFIG, TOKEN_MAP = "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"
CONFIG, GENERATION, README = "config.json", "generation_config.json", "README.md"
TEMPLATE, TEMPLATES = "chat_template.jinja", "additional_chat_templates"
OF_TEXT = (TOKENIZER, TOKENIZER_CONFIG, TOKEN_MAP, "added_tokens.json", TEMPLATE, CONFIG, GENERATION)
"""The files from which text and tokens are made; beside them the templates of `TEMPLATES`."""
_WEIGHTS = (
    ".safetensors", ".index.json", ".bin", ".pth", ".ckpt", ".h5", ".msgpack", ".gguf", ".onnx", ".onnx_data", ".ot", ".npz",
    ".tflite", ".nemo", "optimizer.pt", "scheduler.pt",
)  # fmt: skip
"""Endings of files of weights."""
_OURS = frozenset({"digests.json", "manifest.json", "run.toml"})
_LARGEST = 256 * 2**20
"""Bytes of a file from which on it is no file about a model."""
_MOST = 512 * 2**20
"""Bytes of all files about a model, which are held in memory."""


@dataclass(frozen=True, eq=False)
class Beside:
    """Configuration, tokenizer, templates, licence, and whatever else a model's authors put beside its weights.

    `files`: contents by name, a `/` in the names of files in folders; `where`: what errors call the directory.
    """

    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    where: str = ""

    @classmethod
    def named(cls, place: str | Path) -> Self:
        """The files of what a description names: see `place_of` and `read`."""
        return cls.read(place_of(place))

    @classmethod
    def read(cls, place: Path) -> Self:
        """The files of a model's directory, of a checkpoint of ours, or those that belong to one `tokenizer.json`."""
        if (place / FOLDER).is_dir():
            return cls(_files(place / FOLDER, lambda name: True), str(place))
        if place.is_dir() and not any((place / name).exists() for name in _OURS - {"digests.json"}):
            return cls(_files(place, lambda name: True), str(place))
        folder, own = (place, TOKENIZER) if place.is_dir() else (place.parent, place.name)
        files = _files(folder, lambda name: name in {*OF_TEXT, own} or name.startswith(f"{TEMPLATES}/"))
        if own != TOKENIZER and own in files:  # a tokenizer's file by another name
            files[TOKENIZER] = files.pop(own)
        return cls(files, str(folder))

    def write(self, directory: Path) -> None:
        """Write every file, each as it was read."""
        for name, content in self.files.items():
            path = directory / PurePosixPath(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def keep(self, directory: Path) -> None:
        """Write every file into the folder where `read` looks first."""
        self.write(directory / FOLDER)

    def but(self, changes: Mapping[str, bytes | None]) -> Self:
        """With other contents of some files; None: without the file."""
        files = {**self.files, **changes}
        return type(self)({name: content for name, content in files.items() if content is not None}, self.where)

    def __contains__(self, name: str) -> bool:
        return name in self.files

    def text(self, name: str) -> str | None:
        """The text of a file, None if it is absent; `DataError` if it is no UTF-8."""
        if name not in self.files:
            return None
        try:
            return self.files[name].decode()
        except UnicodeDecodeError as error:
            raise DataError(f"{self._path(name)}: cannot be read ({error})") from None

    def table(self, name: str) -> dict[str, Any]:
        """The table in a JSON file, empty if the file is absent; each is read once."""
        if name not in self._tables:
            self._tables[name] = self._table(name)
        return dict(self._tables[name])

    @cached_property
    def _tables(self) -> dict[str, dict[str, Any]]:
        return {}

    def _table(self, name: str) -> dict[str, Any]:
        text = self.text(name)
        if text is None:
            return {}
        try:
            table = json_data(text)
        except ValueError as error:
            raise DataError(f"{self._path(name)}: not valid JSON ({error})") from None
        if not isinstance(table, dict):
            raise DataError(f"{self._path(name)}: should be a JSON object, got {type(table).__name__}")
        return table

    @cached_property
    def digests(self) -> dict[str, str]:
        """The SHA-256 of each file."""
        return {name: hashlib.sha256(content).hexdigest() for name, content in self.files.items()}

    @property
    def digest(self) -> str:
        """The SHA-256 of all names and contents."""
        return hashlib.sha256(json.dumps(self.digests, sort_keys=True).encode()).hexdigest()

    def _path(self, name: str) -> str:
        return str(Path(self.where) / name)


def place_of(named: str | Path) -> Path:
    """The path that a description names; of a model on a hub that of its copy here, with all but its weights."""
    return hub.fetched(named, hub.about) if hub.is_hub(named) else Path(named).expanduser()


def _files(folder: Path, wanted: Any) -> dict[str, bytes]:
    """The files of a folder and of its chat templates that are `wanted`, weights left out."""
    found = sorted(path for path in folder.iterdir() if path.is_file()) if folder.is_dir() else []
    templates = folder / TEMPLATES
    found += sorted(templates.glob("*.jinja")) if templates.is_dir() else []
    names = {path.relative_to(folder).as_posix(): path for path in found}
    try:
        kept = {name: path for name, path in names.items() if wanted(name) and not _is_weights(path)}
        if (size := sum(path.stat().st_size for path in kept.values())) > _MOST:
            raise DataError(
                f"{folder}: {size:,} bytes beside the weights, and at most {_MOST:,} are kept with a model; move elsewhere "
                "what is no file about it"
            )
        return {name: path.read_bytes() for name, path in kept.items()}
    except OSError as error:
        raise DataError(f"{error.filename}: cannot be read ({error.strerror})") from None


def _is_weights(path: Path) -> bool:
    return path.name.endswith(_WEIGHTS) or path.name in _OURS or path.stat().st_size > _LARGEST
