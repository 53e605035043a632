"""Run by the environment that has llama-cpp-python, with nothing of this package: what llama.cpp makes of GGUF files.

Reads a list of questions, `{"name", "number", "file", "prompt", "new"}`, and prints a line of JSON for each: the tokens that
follow, and the file of logits (T + new, V) that it has written beside. `"as"`: first round the file to this type by llama.cpp's
own quantiser.
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path

import llama_cpp
import numpy as np


@llama_cpp.llama_log_callback
def silence(level, text, data):
    """Takes every line of the library and prints none."""


def rounded(path: Path, kind: str) -> Path:
    """The file in few bits."""
    options = llama_cpp.llama_model_quantize_default_params()
    options.ftype = getattr(llama_cpp, f"LLAMA_FTYPE_MOSTLY_{kind}")
    to = path.with_name(f"{path.stem}-{kind}.gguf")
    if llama_cpp.llama_model_quantize(str(path).encode(), str(to).encode(), options):
        raise RuntimeError(f"the quantiser refuses {kind}")
    return to


def batch_of(tokens, past):
    """Tokens of one sequence after `past` ones, as the library takes them."""
    batch = llama_cpp.llama_batch_init(len(tokens), 0, 1)
    batch.n_tokens = len(tokens)
    for i, token in enumerate(tokens):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, past + i, 1, 1
        batch.seq_id[i][0] = 0
    return batch


def encoded(state, tokens):
    """Let the encoder read a source."""
    batch = batch_of(tokens, 0)
    if failed := llama_cpp.llama_encode(state, batch):
        raise RuntimeError(f"llama_encode gives {failed}")
    llama_cpp.llama_batch_free(batch)


def step(state, tokens, past, vocab):
    """Logits (T, V) of tokens after `past` ones."""
    batch = batch_of(tokens, past)
    if failed := llama_cpp.llama_decode(state, batch):
        raise RuntimeError(f"llama_decode gives {failed}")
    logits = np.ctypeslib.as_array(llama_cpp.llama_get_logits(state), shape=(len(tokens), vocab)).copy()
    llama_cpp.llama_batch_free(batch)
    return logits


def answer(asked):
    """The prompt at once, then greedy tokens one by one from a cache in fp32."""
    path = Path(asked["file"])
    path = rounded(path, asked["as"]) if "as" in asked else path
    options = llama_cpp.llama_model_default_params()
    options.n_gpu_layers = 0
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), options)
    if not model:
        raise RuntimeError("llama.cpp does not load it")
    prompt = asked["prompt"]
    run = llama_cpp.llama_context_default_params()
    run.n_ctx = len(prompt) + asked["new"]
    run.n_threads = run.n_threads_batch = 1
    run.type_k = run.type_v = llama_cpp.GGML_TYPE_F32
    run.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
    state = llama_cpp.llama_init_from_model(model, run)
    vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
    if llama_cpp.llama_model_has_encoder(model):
        encoded(state, prompt)
        prompt = [llama_cpp.llama_model_decoder_start_token(model)]
    logits, tokens = [step(state, prompt, 0, vocab)], []
    for _ in range(asked["new"]):
        tokens.append(int(logits[-1][-1].argmax()))
        logits.append(step(state, tokens[-1:], len(prompt) + len(tokens) - 1, vocab))
    llama_cpp.llama_free(state)
    llama_cpp.llama_model_free(model)
    kept = path.with_suffix(".npy")
    np.save(kept, np.concatenate(logits))
    return {"tokens": tokens, "logits": str(kept), "read": str(path)}


def main():
    """A line for every question."""
    llama_cpp.llama_log_set(silence, ctypes.c_void_p(0))
    for asked in json.loads(Path(sys.argv[1]).read_text()):
        try:
            found = answer(asked)
        except RuntimeError as error:
            found = {"error": str(error)}
        print(json.dumps({"name": asked["name"], "number": asked["number"], **found}), flush=True)


main()
