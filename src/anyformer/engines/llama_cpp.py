"""llama.cpp, through the package llama-cpp-python (extra `llama`): a GGUF file on the processor.

Its products round what they multiply to 16 bits beside weights of 16 bits, and to 8 beside q8_0, q4_0 and their like (ggml's
`vec_dot_type`), and give fp32; own products in bf16 round what they give. So one seed gives one text in fp32 alone, and `auto`
takes no other form.
"""

from __future__ import annotations

from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from anyformer import huggingface
from anyformer.engines.converting import ConvertingEngine
from anyformer.engines.engine import Asked, EngineRefusedError
from anyformer.engines.llama_library import LlamaFile, library
from anyformer.engines.llama_sequences import LlamaSequences
from anyformer.engines.sequences import SequenceMaker
from anyformer.engines.stored_form import stored_form
from anyformer.generation.places import PlaceMaker, RowReader
from anyformer.huggingface import gguf
from anyformer.huggingface.gguf.reader import SUFFIX
from anyformer.loading import load, trained_length
from anyformer.model.transformer import Transformer

FORMS = {"fp32": "f32", "bf16": "bf16", "int8": "q8_0", "int4-32": "q4_0"}
"""Formats of `--weights`, and llama.cpp's of as many bits."""
BYTES = {"f32": 4, "bf16": 2, "f16": 2, "q8_0": 34 / 32, "q4_0": 18 / 32}
"""Bytes of a number."""


class LlamaCppEngine(ConvertingEngine):
    """Models whose type llama.cpp knows. The cache of keys and values has 32 bits beside weights of 32, else 16."""

    name, suffix, same, plain, serves = "llama.cpp", SUFFIX, ("f32",), ("f32", "bf16", "f16"), True
    remedy = "pip install 'anyformer[llama]'"

    @property
    def installed(self) -> bool:
        return find_spec("llama_cpp") is not None

    def versions(self) -> list[str]:
        return [version("llama-cpp-python"), library().llama_print_system_info().decode()]

    def form(self, asked: Asked) -> str:
        if asked.weights != "stored" and asked.weights not in FORMS:
            raise EngineRefusedError(f"it has no format like {asked.weights}: leave --weights out")
        return FORMS.get(asked.weights) or stored_form(asked.place)

    def own_file(self, place: Path) -> bool:
        return gguf.is_gguf(place)

    def write(self, model: Transformer, place: Path, path: Path, form: str) -> None:
        dtypes = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
        more: dict[str, Any] = {"dtype": dtypes[form]} if form in dtypes else {"quantise": form}
        try:
            # Without its tokenizer: tokens come and go as numbers.
            gguf.export_gguf(model, path, length=trained_length(place), **more)
        except huggingface.HuggingFaceError as error:
            raise EngineRefusedError(str(error).removeprefix(f"{path}: ")) from None

    def size(self, model: Transformer, form: str) -> int:
        return int(BYTES[form] * sum(value.numel() for value in model.parameters()))

    def read(self, path: Path, form: str) -> PlaceMaker:
        return LlamaFile(path, wide=form in self.same)

    def reader(self, places: PlaceMaker) -> RowReader | None:
        assert isinstance(places, LlamaFile), "it was read here"
        return places.logits

    def sequences(self, places: PlaceMaker) -> SequenceMaker:
        assert isinstance(places, LlamaFile), "it was read here"
        return partial(LlamaSequences, places)

    def reference(self, path: Path) -> Transformer:
        return load(path)[0]
