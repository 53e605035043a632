"""A teacher's answers on disk: files of consecutive training rows with an index of their digests; their place beside examples.

An answer is the log-probabilities of k tokens, in fp32, and the tokens. In 16 bits a log-probability of -10 is rounded by up to
0.4%, and what is left for all other tokens, 1 - sum_j p_j, by as much: more than the whole of it where the teacher is sure.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file
from torch import Tensor

from anyformer.data import IGNORED
from anyformer.describe import UserError, read_json
from anyformer.files import sha256, write_text, writing
from anyformer.objectives import Examples

INDEX = "index.json"


class AnswersError(UserError):
    """A file of a teacher's answers is damaged, or of other examples."""


@dataclass(frozen=True)
class AnswerFile:
    """A file with the answers about the `targets` of rows `first` ... `stop` - 1, and its SHA-256; `held`: the probability of
    the tokens that it keeps, summed over the targets."""

    file: str
    first: int
    stop: int
    sha256: str
    targets: int
    held: float


@dataclass(frozen=True)
class Answers:
    """A teacher's answers about rows 0 ... of a run in a folder, of `kept` tokens each; `teacher`: its digest."""

    folder: Path
    parts: tuple[AnswerFile, ...]
    teacher: str
    kept: int

    @property
    def words(self) -> str:
        """How much of the teacher's probability is kept, in words."""
        targets = max(1, sum(part.targets for part in self.parts))
        return (
            f"kept tokens: {self.kept:,}, which hold {sum(part.held for part in self.parts) / targets:.1%} of its probability"
        )

    def beside(self, examples: Examples) -> Examples:
        """The examples of training rows with the answers about their targets; zeros where there is no target."""
        asked = (examples.targets != IGNORED).reshape(len(examples.rows), -1).numpy()
        found = [self._of(row, int(count)) for row, count in zip(examples.rows.tolist(), asked.sum(1), strict=True)]
        where, shape = torch.from_numpy(asked.ravel()), (*examples.targets.shape, found[0][0].shape[1])
        values, tokens = (torch.zeros(asked.size, shape[-1], dtype=dtype) for dtype in (torch.float32, torch.int64))
        values[where] = torch.from_numpy(np.concatenate([each for each, _ in found]))
        tokens[where] = torch.from_numpy(np.concatenate([each for _, each in found]).astype(np.int64))
        return replace(examples, taught=values.view(shape), taught_tokens=tokens.view(shape))

    def _of(self, row: int, count: int) -> tuple[NDArray[np.float32], NDArray[Any]]:
        """Values and tokens (N, k) of the N targets of a row."""
        number = bisect_right(self.parts, row, key=lambda part: part.first) - 1
        assert number >= 0, "every row of a run is asked about"
        assert row < self.parts[number].stop, "every row of a run is asked about"
        path = self.folder / self.parts[number].file
        with _naming(path):
            starts = _starts(path)
            start, stop = starts[row - self.parts[number].first : row - self.parts[number].first + 2].tolist()
            if stop - start != count:
                raise AnswersError(f"{path}: has {stop - start} answers about row {row}, which has {count} targets; delete it")
            with safe_open(path, framework="np") as file:
                return file.get_slice("values")[start:stop], file.get_slice("tokens")[start:stop]


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Turn the error of a file that changed after it was verified into one that names it."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise AnswersError(f"{path}: cannot be read ({error}); resume the run, and the teacher is asked again") from error


@lru_cache(maxsize=8)
def _starts(path: Path) -> NDArray[np.int64]:
    """(rows + 1,): at which answer of a file those of each row begin."""
    with safe_open(path, framework="np") as file:
        return file.get_tensor("starts")  # type: ignore[no-any-return]


def token_type(vocab: int) -> np.dtype[Any]:
    """The smaller of two formats that hold every token: 16 or 32 bits."""
    return np.dtype(np.uint16 if vocab < 2**16 else np.int32)


def write_part(
    folder: Path, first: int, counts: Sequence[int], values: Sequence[Tensor], tokens: Sequence[Tensor], vocab: int
) -> AnswerFile:
    """Write the answers about consecutive rows from `first` on, of which each has so many; whole or not at all."""
    stop = first + len(counts)
    path, held = folder / f"rows-{first:012d}-{stop:012d}.safetensors", sum(float(each.exp().sum()) for each in values)
    numbers = {
        "values": torch.cat(list(values)).numpy().astype(np.float32),
        "tokens": torch.cat(list(tokens)).numpy().astype(token_type(vocab)),
        "starts": np.cumsum([0, *counts], dtype=np.int64),
    }
    with writing(path) as partial:
        save_file(numbers, partial)
    return AnswerFile(path.name, first, stop, sha256(path), sum(counts), held)


def write_index(folder: Path, facts: Mapping[str, Any], parts: Sequence[AnswerFile]) -> None:
    """Write what the answers depend on, and which files hold them."""
    index = {"facts": facts, "parts": [asdict(part) for part in parts]}
    write_text(folder / INDEX, json.dumps(index, indent=1) + "\n")


def whole_parts(folder: Path) -> tuple[list[AnswerFile], list[str]]:
    """The files whose content is what was written, in the order of rows, and what is wrong with each other one."""
    path = folder / INDEX
    if not path.exists():
        return [], []
    try:
        parts = [AnswerFile(**entry) for entry in read_json(path)["parts"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return [], [f"{path}: damaged ({type(error).__name__}: {error})"]
    whole, damaged = [], []
    for part in sorted(parts, key=lambda part: part.first):
        file = folder / part.file
        if not file.is_file():
            damaged.append(f"{file}: is missing")
        elif sha256(file) != part.sha256:
            damaged.append(f"{file}: damaged, its {file.stat().st_size:,} bytes are not those that were written")
        else:
            whole.append(part)
    return whole, damaged


def gaps(parts: Sequence[AnswerFile], rows: int, most: int) -> Iterator[tuple[int, int]]:
    """Runs of rows, first and last exclusive, `most` at most, that no part has, among the first `rows`."""
    at = 0
    for first, stop in (*((part.first, part.stop) for part in parts), (rows, rows)):
        while at < min(first, rows):
            end = min(at + most, first, rows)
            yield at, end
            at = end
        at = max(at, stop)
