"""Prepared data as the data of a run: a directory, or a place in a store, opened in place of the files that it was made of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from os.path import isfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyformer import stores
from anyformer.data.corpus import BEGIN, INDEX, Corpus, number_files, read_index
from anyformer.data.description import Data, Files
from anyformer.data.kinds.mixture import Mixture
from anyformer.data.shards import FilesOnDisk
from anyformer.data.stored_numbers import StoredNumbers
from anyformer.data.tokenizer_specs import TokenizerFile
from anyformer.files import locked, replacing_directory, writing
from anyformer.text.beside import FOLDER, Beside
from anyformer.text.errors import DataError
from anyformer.text.specials import Specials


@dataclass(frozen=True)
class ObjectsInStore:
    """The files of prepared data beneath a URL; `folder`: copies of the small ones on this machine."""

    url: str
    folder: Path
    sizes: Mapping[str, int]

    def numbers(self, entry: dict[str, Any], dtype: np.dtype[Any]) -> StoredNumbers:
        """A file of numbers, read by ranges; `DataError` if it has another size than the index says."""
        name, wanted = entry["file"], entry["count"] * dtype.itemsize
        if name not in self.sizes:
            raise DataError(f"{stores.joined(self.url, name)}: there is no such object, and the index names it; store it again")
        if self.sizes[name] != wanted:
            raise DataError(
                f"{stores.joined(self.url, name)}: has {self.sizes[name]:,} bytes, should have {wanted:,}; store it again"
            )
        return StoredNumbers(stores.joined(self.url, name), entry["count"], dtype)

    def starts(self, entry: dict[str, Any]) -> NDArray[Any]:
        """The places at which documents or records begin: copied to this machine once, and mapped."""
        self.numbers(entry, np.dtype("<i8"))
        path = self.folder / entry["file"]
        if not path.exists():
            with writing(path) as partial:
                stores.copied(stores.joined(self.url, entry["file"]), partial)
        return FilesOnDisk(self.folder, verify=True).starts(entry)


def is_prepared(data: Files) -> bool:
    """Whether the one path of data is that of prepared data: `index.json` says so."""
    if len(data.paths) > 1 or data.validation_paths:
        return False
    (path,) = data.paths
    if stores.is_url(path):
        return not path.endswith(INDEX) and stores.begin_of(stores.joined(path, INDEX), len(BEGIN)) == BEGIN.encode()
    place = Path(path).expanduser() / INDEX
    if not isfile(place):
        return False
    with place.open("rb") as file:
        return file.read(len(BEGIN)) == BEGIN.encode()


def open_prepared(data: Files, cache: Path, special: Specials, verify: bool) -> Corpus:
    """The prepared data that is the one path of `data`; `DataError` names the field in which it was described otherwise."""
    (path,) = data.paths
    corpus = _from_store(path, cache) if stores.is_url(path) else Corpus.open(Path(path).expanduser().absolute(), verify)
    _check_same(path, read_index(corpus.directory), corpus, data, special)
    return corpus


def check_storable(data: Data, place: str) -> None:
    """Raise `DataError`, before any work, for data whose tokens `store` cannot copy to a place; `StoreError` for a place with
    a secret in it."""
    stores.check_no_secrets(place)
    match data:
        case Mixture():
            raise DataError(
                "a mixture has no tokens of its own that could be copied; prepare the parts one by one, with the tokenizer of "
                "all (kind 'file'), copy it to a place of its own, and name that in the paths of the part"
            )
        case Files() if stores.is_url(data.paths[0]) and is_prepared(data):
            raise DataError(f"{data.paths[0]}: is prepared, in a store; copy it with the tools of the store")
        case Files():
            return
    raise DataError(f"data of kind {data.kind!r} is made as it is read: there are no tokens to copy; leave out the place")


def store(corpus: Corpus, place: str) -> None:
    """Copy prepared data, which `check_storable` accepts, to a directory or a URL: the files that its index names, and then
    the index, so that it is there whole or not at all. `DataError` if another index is there: its files would change under it.
    """
    index = read_index(corpus.directory)
    if not stores.is_url(place):
        place = Path(place).expanduser().absolute().as_uri()
    if stores.begin_of(stores.joined(place, INDEX)) not in (None, (corpus.directory / INDEX).read_bytes()):
        raise DataError(
            f"{stores.joined(place, INDEX)}: is the index of other data; name another place, or delete its files (the tokens "
            "made here are kept, and copied at once)"
        )
    for name in (*number_files(index), *(f"{FOLDER}/{name}" for name in index["beside"]), INDEX):
        with (corpus.directory / name).open("rb") as source, stores.opened(stores.joined(place, name), "wb") as target:
            while block := source.read(stores.BLOCK):
                target.write(block)


def _from_store(url: str, cache: Path) -> Corpus:
    """Prepared data in a store, its index and tokenizer copied to the cache when they changed there."""
    objects = stores.beneath(url)
    small = {name: each for name, each in objects.items() if name == INDEX or name.startswith(f"{FOLDER}/")}
    marks = json.dumps([[each.url, each.size, each.mark] for each in small.values()])
    target = cache / f"store-{hashlib.sha256(marks.encode()).hexdigest()[:24]}"
    with locked(cache / f".{target.name}.lock"):
        if not target.exists():
            with replacing_directory(target) as folder:
                (folder / FOLDER).mkdir()
                for name, each in small.items():
                    stores.copied(each.url, folder / name)
        sizes = {name: each.size for name, each in objects.items()}
        return Corpus.open(target, files=ObjectsInStore(url, target, sizes))


def _check_same(path: str, index: Mapping[str, Any], corpus: Corpus, data: Files, special: Specials) -> None:
    """Refuse data that was described otherwise than the run has it, but for where its files are."""
    made = {**index["data"], "special": index.get("special")}
    asked = {**data.content(), "special": special.plain()}
    elsewhere = {"paths", "glob", "validation_paths", *(["special"] if made["special"] is None else [])}
    if isinstance(data.tokenizer, TokenizerFile):
        elsewhere.add("tokenizer")
        if Beside.named(data.tokenizer.path).digest != corpus.tokenizer.beside.digest:
            raise DataError(f"{path}: was prepared with another tokenizer than {data.tokenizer.path}; prepare it again with it")
    for name in asked.keys() - elsewhere:
        if made.get(name) != asked[name]:
            was, wanted = json.dumps(made.get(name)), json.dumps(asked[name])
            raise DataError(
                f"{path}: was prepared with {name} = {was}, and this run has {wanted}; set it as it was, or prepare the data "
                "again for this run"
            )
