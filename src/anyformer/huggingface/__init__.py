"""Hugging Face checkpoints both ways: a directory of transformers' layout to a model of ours, and back."""

from anyformer.huggingface.config import Config, HuggingFaceError, read_config
from anyformer.huggingface.convert import architecture_of, export, load
from anyformer.huggingface.express import express
from anyformer.huggingface.family import FAMILIES, Family, family, own, read_architecture
from anyformer.huggingface.verify import Verdict, verify

__all__ = [
    "FAMILIES",
    "Config",
    "Family",
    "HuggingFaceError",
    "Verdict",
    "architecture_of",
    "export",
    "express",
    "family",
    "load",
    "own",
    "read_architecture",
    "read_config",
    "verify",
]
