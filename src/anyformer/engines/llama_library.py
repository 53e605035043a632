"""llama.cpp's library through the package llama-cpp-python: a model file, and the memory of the texts that it goes on with."""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from anyformer.engines.engine import EngineRefusedError

CHUNK = 2048
"""Tokens that are given to the library at once at most; it computes 512 of them together."""
LOGITS = 2**25
"""Logits of whole texts that are held at a time, but for those of one text."""


@cache
def library() -> Any:
    """The package, which says nothing on standard error. Raises `EngineRefusedError` where it cannot be imported."""
    try:
        llama_cpp = importlib.import_module("llama_cpp")
    except (ImportError, OSError, RuntimeError) as error:
        raise EngineRefusedError(f"the package llama-cpp-python cannot be imported ({error})") from None
    silent = llama_cpp.llama_log_callback(lambda level, text, data: None)
    llama_cpp.llama_log_set(silent, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    _HELD.append(silent)
    return llama_cpp


@cache
def _logits_address() -> Callable[[Any], int]:
    """The library's function that gives the address of logits, called without a pointer object around it."""
    address = ctypes.cast(library().llama_get_logits, ctypes.c_void_p).value
    assert address is not None, "the library has this function"
    found: Callable[[Any], int] = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(address)
    return found


_HELD: list[Any] = []
"""What the library calls, and holds no reference to."""


def grouped(counts: Sequence[int], most: int) -> list[list[int]]:
    """The numbers of things in groups, in order, whose counts together are at most `most`; one that has more is alone."""
    groups, held = list[list[int]](), most
    for number, count in enumerate(counts):
        held += count
        if held > most:
            groups.append([])
            held = count
        groups[-1].append(number)
    return groups


class LlamaFile:
    """A model file in memory. `wide`: keys and values of the cache are held in 32 bits, as without them in 16."""

    def __init__(self, path: Path, *, wide: bool) -> None:
        self.path, self.wide = path, wide
        self._library = library()
        self._model = self._library.llama_model_load_from_file(str(path).encode(), self._settings())
        if not self._model:
            raise EngineRefusedError(f"llama.cpp cannot read {path.name}")
        self.vocab = int(self._library.llama_vocab_n_tokens(self._library.llama_model_get_vocab(self._model)))
        self._context: LlamaContext | None = None

    def __call__(self, prompts: Sequence[Sequence[int]], count: int, max_tokens: int) -> LlamaPlaces:
        """Places for prompts, as `generation.places` asks for them."""
        return LlamaPlaces(self.context(count, max(map(len, prompts)) + max_tokens), prompts, count)

    def logits(self, rows: Sequence[Sequence[int]], last: Sequence[int]) -> Iterator[Tensor]:
        """The logits after the last so many tokens of each text, (n, V), as `generation.places` asks for them."""
        most = max(1, LOGITS // self.vocab)
        groups = grouped(last, most)
        context = self.context(max(map(len, groups)), max(map(len, rows)))
        for group in groups:
            context.clear()
            yield from context.read(range(len(group)), [rows[row] for row in group], [last[row] for row in group])

    def context(self, rows: int, length: int) -> LlamaContext:
        """Memory of so many texts of so many tokens each; the one before is let go, unless it will do."""
        held = self._context
        if held is None or held.rows < rows or held.length < length:
            self._close_context()
            held = self._context = LlamaContext(self._model, self.vocab, rows, length, wide=self.wide)
        held.clear()
        return held

    def own_context(self, rows: int, length: int) -> LlamaContext:
        """Memory of exactly so many texts that nobody else is given; that of `context` is let go."""
        most = int(self._library.llama_max_parallel_sequences())
        if rows > most:
            raise EngineRefusedError(f"llama.cpp goes on with {most} texts at most, and {rows:,} are asked for")
        self._close_context()
        return LlamaContext(self._model, self.vocab, rows, length, wide=self.wide)

    def close(self) -> None:
        """Give up the memory of the file."""
        self._close_context()
        if self._model:
            self._library.llama_model_free(self._model)
            self._model = None

    def _close_context(self) -> None:
        if self._context is not None:
            self._context.close()
            self._context = None

    def _settings(self) -> Any:
        settings = self._library.llama_model_default_params()
        settings.n_gpu_layers = 0
        return settings


class LlamaContext:
    """The memory of `rows` texts; `lengths`: tokens that each holds."""

    def __init__(self, model: Any, vocab: int, rows: int, length: int, *, wide: bool) -> None:
        self._library, self.rows, self.length, self._vocab = library(), rows, -(-length // 256) * 256, vocab
        settings = self._library.llama_context_default_params()
        settings.n_ctx, settings.n_seq_max, settings.n_batch = rows * self.length, rows, CHUNK
        settings.n_threads = settings.n_threads_batch = torch.get_num_threads()
        settings.type_k = settings.type_v = self._library.GGML_TYPE_F32 if wide else self._library.GGML_TYPE_F16
        settings.swa_full = False
        if wide:  # what it fuses casts keys and values to 16 bits
            settings.flash_attn_type = self._library.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self._context = self._library.llama_init_from_model(model, settings)
        if not self._context:
            raise EngineRefusedError(f"llama.cpp has no memory for {rows} texts of {length:,} tokens")
        self._memory, self._address = self._library.llama_get_memory(self._context), _logits_address()
        self.lengths = [0] * rows
        self._advanced = list[int]()
        """The rows that the batch is laid out for, a token of each; none after other tokens."""
        self._views: dict[tuple[int, int], Tensor] = {}
        self._token, self._position, self._row = (np.zeros(CHUNK, dtype=np.int32) for _ in range(3))
        self._asked, self._ones = np.zeros(CHUNK, dtype=np.int8), np.ones(CHUNK, dtype=np.int32)
        self._batch = self._made_batch()

    def clear(self) -> None:
        """Forget all texts."""
        self._library.llama_memory_clear(self._memory, False)
        self.lengths = [0] * self.rows

    def forget(self, row: int) -> None:
        """Forget a text."""
        self._library.llama_memory_seq_rm(self._memory, row, -1, -1)
        self.lengths[row] = 0

    def copy(self, row: int, to: int) -> None:
        """Let row `to`, which holds nothing, hold what `row` does."""
        self._library.llama_memory_seq_cp(self._memory, row, to, -1, -1)
        self.lengths[to] = self.lengths[row]

    def read(self, rows: Sequence[int], texts: Sequence[Sequence[int]], last: Sequence[int]) -> list[Tensor]:
        """Read further tokens of some rows; the logits after the last so many of each, (n, V)."""
        tokens = np.concatenate([np.asarray(text, dtype=np.int32) for text in texts])
        positions = np.concatenate([np.arange(len(text)) + self.lengths[row] for row, text in zip(rows, texts, strict=True)])
        of = np.repeat(np.asarray(rows), [len(text) for text in texts])
        ends = np.cumsum([len(text) for text in texts])
        asked = np.zeros(len(tokens), dtype=np.int8)
        for end, count in zip(ends, last, strict=True):
            asked[end - count : end] = 1
        pieces, self._advanced = [], []
        for start in range(0, len(tokens), CHUNK):
            here = slice(start, start + CHUNK)
            count = len(tokens[here])
            self._token[:count], self._position[:count], self._row[:count] = tokens[here], positions[here], of[here]
            self._asked[:count] = asked[here]
            found = self._decoded(count, int(asked[here].sum()))
            pieces.append(found if len(tokens) <= CHUNK else found.clone())
        for row, text in zip(rows, texts, strict=True):
            self.lengths[row] += len(text)
        found = torch.cat(pieces) if len(pieces) > 1 else pieces[0]
        return list(torch.split(found, list(last)))

    def advance(self, rows: list[int], tokens: Sequence[int]) -> Tensor:
        """Read one more token of some rows; the logits after each, (n, V), good until the next call."""
        count = len(rows)
        if rows != self._advanced:
            self._row[:count], self._asked[:count], self._advanced = rows, 1, list(rows)
        self._token[:count] = tokens
        self._position[:count] = [self.lengths[row] for row in rows]
        for row in rows:
            self.lengths[row] += 1
        return self._decoded(count, count)

    def close(self) -> None:
        """Give up the memory."""
        if self._context:
            self._library.llama_free(self._context)
            self._context = None

    def _decoded(self, count: int, asked: int) -> Tensor:
        """Compute the tokens that are written into the batch; a view of the logits that are asked for."""
        self._batch.n_tokens = count
        failed = self._library.llama_decode(self._context, self._batch)
        if failed:
            raise EngineRefusedError(f"llama.cpp gave up on {count} tokens (error {failed})")
        if not asked:
            return torch.empty(0, self._vocab)
        at = self._address(self._context), asked
        found = self._views.get(at)
        if found is None:
            memory = (ctypes.c_float * (asked * self._vocab)).from_address(at[0])
            found = self._views[at] = torch.frombuffer(memory, dtype=torch.float32).view(asked, self._vocab)
        return found

    def _made_batch(self) -> Any:
        """A batch whose columns are arrays of this object; every token is of one row."""
        row = self._row.ctypes.data
        self._pointers = np.arange(CHUNK, dtype=np.uintp) * self._row.itemsize + row

        def pointer(array: Any, kind: Any) -> Any:
            return array.ctypes.data_as(ctypes.POINTER(kind))

        batch = self._library.llama_batch()
        batch.token, batch.pos = pointer(self._token, ctypes.c_int32), pointer(self._position, ctypes.c_int32)
        batch.n_seq_id, batch.logits = pointer(self._ones, ctypes.c_int32), pointer(self._asked, ctypes.c_int8)
        batch.seq_id = pointer(self._pointers, ctypes.POINTER(ctypes.c_int32))
        return batch


class LlamaPlaces:
    """`generation.places.TextPlaces` in the memory of llama.cpp, for prompts by their numbers."""

    def __init__(self, context: LlamaContext, prompts: Sequence[Sequence[int]], count: int) -> None:
        self.count, self.device = count, torch.device("cpu")
        self._context, self._prompts = context, prompts
        self._held = list[int]()
        """The places that hold a text, in order."""

    def enter(self, at: Sequence[int], numbers: Sequence[int]) -> Tensor:
        """Read prompts; one that several places go on with is read once."""
        first: dict[tuple[int, ...], int] = {}
        keys = [tuple(self._prompts[number]) for number in numbers]
        for place, key in zip(at, keys, strict=True):
            first.setdefault(key, place)
        read = self._context.read(list(first.values()), list(first), [1] * len(first))
        for place, key in zip(at, keys, strict=True):
            if first[key] != place:
                self._context.copy(first[key], place)
        self._held = sorted([*self._held, *at])
        order = {key: number for number, key in enumerate(first)}
        logits = torch.cat(read) if len(read) > 1 else read[0]
        return logits if len(first) == len(keys) else logits[[order[key] for key in keys]]

    def advance(self, tokens: Sequence[int]) -> Tensor:
        """Read a token at every place that holds a text."""
        held = self._held
        if len(held) == self.count:
            return self._context.advance(held, tokens)
        logits = self._context.advance(held, [tokens[place] for place in held])
        spread = logits.new_zeros(self.count, logits.shape[1])
        spread[held] = logits
        return spread

    def leave(self, at: Sequence[int]) -> None:
        """Forget texts."""
        for place in at:
            self._context.forget(place)
            self._held.remove(place)
