"""Models on disk: sealed directories of safetensors, verified before use. Nothing is ever unpickled."""

from anyformer.checkpoint.history import best, directory_of, latest, prune, steps
from anyformer.checkpoint.manifest import (
    MANIFEST,
    CheckpointError,
    Manifest,
    add_facts,
    read_manifest,
    verify,
)
from anyformer.checkpoint.model import TOKENIZER, adapter_of, fill, load, read, restore, save, weights

__all__ = [
    "MANIFEST",
    "TOKENIZER",
    "CheckpointError",
    "Manifest",
    "adapter_of",
    "add_facts",
    "best",
    "directory_of",
    "fill",
    "latest",
    "load",
    "prune",
    "read",
    "read_manifest",
    "restore",
    "save",
    "steps",
    "verify",
    "weights",
]
