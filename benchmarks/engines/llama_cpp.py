"""Whether llama.cpp computes what our models compute: GGUF files written here, run by the package `llama_cpp`."""

from __future__ import annotations

import ctypes
import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from anyformer.model.transformer import Transformer
from anyformer.parts.pointwise.activation_module import FUNCTIONS, ActivationModule

PROMPT, NEW = 24, 16
"""Tokens of the prompt, and greedy ones after it."""
NEAR = 1e-4
"""Largest difference of a logit that is called equal, of the largest logit."""


@dataclass(frozen=True)
class Answers:
    """What a model gives: logits (T, V) of the prompt, and greedy tokens after it."""

    logits: torch.Tensor
    tokens: tuple[int, ...]


def ours(model: Transformer, prompt: torch.Tensor, new: int = NEW) -> Answers:
    """The reference: the whole text anew for every token."""
    tokens = prompt
    with torch.no_grad():
        logits = model(prompt)[0]
        for _ in range(new):
            tokens = torch.cat([tokens, model(tokens)[:, -1:].argmax(-1)], 1)
    return Answers(logits, tuple(tokens[0, prompt.shape[1] :].tolist()))


def _library() -> Any:
    """The package, which the tests and the house do without."""
    return importlib.import_module("llama_cpp")


@contextmanager
def _quiet(llama_cpp: Any) -> Iterator[None]:
    """Without what llama.cpp prints about files."""
    callback = llama_cpp.llama_log_callback(lambda level, text, data: None)
    if not os.environ.get("SHOW_LLAMA_CPP"):
        llama_cpp.llama_log_set(callback, ctypes.c_void_p(0))
    yield


def theirs(path: Path, prompt: torch.Tensor, new: int = NEW, context: int | None = None) -> Answers:
    """What llama.cpp computes of a file: the prompt at once, then token by token from its cache in fp32."""
    llama_cpp = _library()
    with _quiet(llama_cpp):
        options = llama_cpp.llama_model_default_params()
        options.n_gpu_layers = 0
        model = llama_cpp.llama_model_load_from_file(str(path).encode(), options)
        if not model:
            raise RuntimeError(f"{path}: llama.cpp does not load it; with SHOW_LLAMA_CPP=1 in the environment it says why")
        run = llama_cpp.llama_context_default_params()
        run.n_ctx = context or prompt.shape[1] + new
        run.n_threads = run.n_threads_batch = 1
        run.type_k = run.type_v = llama_cpp.GGML_TYPE_F32
        run.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        state = llama_cpp.llama_init_from_model(model, run)
        try:
            vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
            return _decoded(llama_cpp, state, prompt[0].tolist(), new, vocab)
        finally:
            llama_cpp.llama_free(state)
            llama_cpp.llama_model_free(model)


def _decoded(llama_cpp: Any, state: Any, prompt: list[int], new: int, vocab: int) -> Answers:
    logits, last = _step(llama_cpp, state, prompt, 0, vocab), []
    whole = logits
    for _ in range(new):
        last.append(int(logits[-1].argmax()))
        logits = _step(llama_cpp, state, last[-1:], len(prompt) + len(last) - 1, vocab)
    return Answers(torch.from_numpy(whole), tuple(last))


def _step(llama_cpp: Any, state: Any, tokens: list[int], past: int, vocab: int) -> np.ndarray[Any, Any]:
    """Logits (T, V) of tokens after `past` ones."""
    batch = llama_cpp.llama_batch_init(len(tokens), 0, 1)
    batch.n_tokens = len(tokens)
    for i, token in enumerate(tokens):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, past + i, 1, 1
        batch.seq_id[i][0] = 0
    try:
        if (failed := llama_cpp.llama_decode(state, batch)) != 0:
            raise RuntimeError(f"llama.cpp's decode gave {failed}")
        pointer = llama_cpp.llama_get_logits(state)
        return np.ctypeslib.as_array(pointer, shape=(len(tokens), vocab)).copy()
    finally:
        llama_cpp.llama_batch_free(batch)


def loud(model: Transformer, seed: int = 1) -> Transformer:
    """Random weights that all leave a trace: norms about 1, nothing at a neutral value."""
    drawn = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = 0.2 * torch.randn(parameter.shape, generator=drawn)
            parameter.copy_(1 + noise if parameter.dim() == 1 and name.endswith("weight") else noise)
    return model.eval()


def looked_up(x: torch.Tensor) -> torch.Tensor:
    """GELU as llama.cpp computes it on processors: from a table in fp16 of its tanh form, for inputs in fp16."""
    found = torch.nn.functional.gelu(x.half().float(), approximate="tanh").half().float()
    return torch.where(x <= -10, 0.0, torch.where(x >= 10, x, found))


def with_their_gelu(model: Transformer) -> Transformer:
    """The model with llama.cpp's table in place of GELU, which is exact to 3 decimals alone."""
    made = deepcopy(model)
    for was, module in zip(model.modules(), made.modules(), strict=True):
        if isinstance(was, ActivationModule) and was.function in (FUNCTIONS["gelu"], FUNCTIONS["gelu_tanh"]):
            cast(Any, module).function = looked_up
    return made


def gap(left: Answers, right: Answers) -> float:
    """The largest difference of logits, of the largest."""
    return float((left.logits - right.logits).abs().max() / left.logits.abs().max())
