"""llama.cpp through the functions of its library: several sequences decode in one batch, as its own server does it."""

from __future__ import annotations

import ctypes
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
from benchmarks.cases import NEW, Decoder
from benchmarks.generations import Generate, Stamped
from benchmarks.peers import gguf_file

Entry = tuple[int, int, int, bool]
"""A token, its position, its sequence, and whether its logits are asked for."""
CHUNK = 2048
"""Tokens of a batch at most."""


class LlamaCpp:
    """A model of random weights, from a file that is removed once it is loaded."""

    def __init__(self, sizes: Decoder, weights: str, seed: int, threads: int) -> None:
        self.sizes, self.threads, self.wide = sizes, threads, weights == "f32"
        self._log = llama_cpp.llama_log_callback(lambda level, text, data: None)  # kept: the library holds no reference
        llama_cpp.llama_log_set(self._log, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "random.gguf"
            self.parameters = gguf_file.write(path, sizes, 4096, weights, seed)
            settings = llama_cpp.llama_model_default_params()
            settings.load_mode = llama_cpp.LLAMA_LOAD_MODE_NONE  # into memory, as the file does not stay
            self.model = _made(llama_cpp.llama_model_load_from_file(str(path).encode(), settings))
        self.context: Any = None

    def at(self, batch: int, context: int) -> Generate:
        """Generations of so many sequences, in a cache of their size."""
        if self.context is not None:
            llama_cpp.llama_free(self.context)
        settings = llama_cpp.llama_context_default_params()
        settings.n_ctx, settings.n_seq_max = batch * (context + NEW), batch
        settings.n_batch = CHUNK
        if self.wide:  # the cache of others beside weights of 32 bits; what is fused here would cast it to 16
            settings.type_k = settings.type_v = llama_cpp.GGML_TYPE_F32
            settings.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        settings.n_threads = settings.n_threads_batch = self.threads
        self.context = _made(llama_cpp.llama_init_from_model(self.model, settings))
        space = llama_cpp.llama_batch_init(CHUNK, 0, 1)

        def generate(prompts: list[list[int]]) -> Stamped:
            llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)
            last = context - 1
            read = [
                (token, position, row, position == last)
                for row, prompt in enumerate(prompts)
                for position, token in enumerate(prompt)
            ]
            starts = range(0, len(read), CHUNK)
            tokens = [token for start in starts for token in self._likeliest(space, read[start : start + CHUNK])]
            stamped = [(time.perf_counter(), tokens)]
            for position in range(context, context + NEW - 1):
                tokens = self._likeliest(space, [(token, position, row, True) for row, token in enumerate(tokens)])
                stamped.append((time.perf_counter(), tokens))
            return stamped

        return generate

    def _likeliest(self, space: Any, entries: Sequence[Entry]) -> list[int]:
        """The likeliest next token of every entry that asks for logits."""
        space.n_tokens = len(entries)
        for number, (token, position, row, asks) in enumerate(entries):
            space.token[number], space.pos[number] = token, position
            space.n_seq_id[number], space.seq_id[number][0], space.logits[number] = 1, row, asks
        failed = llama_cpp.llama_decode(self.context, space)
        if failed:
            raise SystemExit(f"llama_decode of {len(entries)} tokens: error {failed}")
        asked = (number for number, entry in enumerate(entries) if entry[3])
        return [int(np.argmax(self._logits(number))) for number in asked]

    def _logits(self, number: int) -> np.ndarray[Any, Any]:
        pointer = llama_cpp.llama_get_logits_ith(self.context, number)
        return np.ctypeslib.as_array(pointer, (self.sizes.vocab,))


def _made(thing: Any) -> Any:
    """What the library made. Raises `SystemExit` where it could not."""
    if not thing:
        raise SystemExit("llama.cpp cannot hold this model")
    return thing
