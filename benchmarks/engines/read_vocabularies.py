"""Run by llama.cpp's interpreter: the tokens that it makes of texts, and those at which it ends a text."""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path

import llama_cpp


def main() -> None:
    """Answer one question: a file of a vocabulary alone, and texts, whose special tokens are special."""
    asked = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    quiet = llama_cpp.llama_log_callback(lambda level, text, data: None)
    llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    settings = llama_cpp.llama_model_default_params()
    settings.vocab_only = True
    model = llama_cpp.llama_model_load_from_file(asked["file"].encode(), settings)
    if not model:
        raise SystemExit(f"{asked['file']}: llama.cpp does not load it")
    vocabulary = llama_cpp.llama_model_get_vocab(model)
    found = []
    for text in asked["texts"]:
        spelt = text.encode()
        space = (llama_cpp.llama_token * (2 * len(spelt) + 16))()
        count = llama_cpp.llama_tokenize(vocabulary, spelt, len(spelt), space, len(space), True, True)
        if count < 0:
            raise SystemExit(f"{text!r}: makes {-count} tokens of {len(spelt)} bytes")
        found.append(list(space[:count]))
    size = llama_cpp.llama_vocab_n_tokens(vocabulary)
    ends = [number for number in range(size) if llama_cpp.llama_vocab_is_eog(vocabulary, number)]
    print(json.dumps({"tokens": found, "ends": ends}), flush=True)


if __name__ == "__main__":
    main()
