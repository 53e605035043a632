"""The architectures of llama.cpp, one file per lineage: how each spells model types of transformers, both ways."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache

from anyformer.describe import did_you_mean
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.gguf.keys import GgufMetadata
from anyformer.huggingface.gguf.spelling import GgufForm

FILES = (
    "llama", "qwen", "gemma", "gpt2", "phi", "gpt_line", "stablelm", "olmo", "cohere", "granite", "dense_line", "gpt_oss",
    "expert_line", "lfm", "mamba", "routed", "t5",
)  # fmt: skip
"""Files here, in the order in which an export tries their types."""


@cache
def forms() -> Mapping[str, GgufForm]:
    """Model type of transformers -> its form."""
    modules = (importlib.import_module(f"{__name__}.{file}") for file in FILES)
    return {form.model_type: form for module in modules for form in module.FORMS}


def architectures() -> list[str]:
    """Every `general.architecture` that is read and written."""
    return sorted({form.architecture for form in forms().values()})


def form_of(keys: GgufMetadata) -> GgufForm:
    """The form of a file, by its architecture and, where several types share it, by its other keys."""
    own = [form for form in forms().values() if form.architecture == keys.architecture]
    if not own:
        hint = did_you_mean(keys.architecture, architectures(), "docs/huggingface.md")
        raise HuggingFaceError(f"{keys.where}: the architecture {keys.architecture!r} is not read from GGUF files{hint}")
    found = next((form for form in own if form.when(keys)), None)
    if found is None:
        types = ", ".join(form.model_type for form in own)
        raise HuggingFaceError(f"{keys.where}: is of none of the model types of {keys.architecture} that are read: {types}")
    return found
