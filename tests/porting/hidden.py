"""Model types that are known, hidden for a while, with tiny models of them: what `port` is tried on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers

from anyformer.huggingface import registry
from anyformer.porting.reference import louder


@contextmanager
def without(*model_types: str) -> Iterator[None]:
    """Within, nothing reads these types, nor the others of their files."""
    files = {file for file, types in registry.FAMILIES.items() if set(types) & set(model_types)}
    families, known = dict(registry.FAMILIES), dict(registry._FILES)
    for file in files:
        for model_type in registry.FAMILIES[file]:
            registry._FILES.pop(model_type)
        registry.FAMILIES.pop(file)
    for model_type in set(model_types) & registry._FILES.keys():
        registry._FILES.pop(model_type)
    try:
        yield
    finally:
        registry.FAMILIES.clear()
        registry.FAMILIES.update(families)
        registry._FILES.clear()
        registry._FILES.update(known)


def tiny(model_type: str, directory: Path, task: str = "CausalLM", **keys: Any) -> Path:
    """A tiny random model of transformers, saved; `task`: the end of the name of its class; a size of None is left out."""
    sizes = {
        "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "vocab_size": 53, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    }  # fmt: skip
    given = {name: value for name, value in {**sizes, **keys}.items() if value is not None}
    config = transformers.CONFIG_MAPPING[model_type](**given)
    torch.manual_seed(0)
    model = getattr(transformers, f"AutoModelFor{task}").from_config(config, attn_implementation="eager").eval()
    louder(model, 0)
    model.save_pretrained(directory)
    return directory


def changed(directory: Path, **keys: Any) -> None:
    """Change keys of a directory's configuration."""
    path = directory / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **keys}))
