"""Hugging Face checkpoints both ways: a directory of transformers' layout to a model of ours, and back."""

from anyformer.huggingface.config import Config, read_config
from anyformer.huggingface.convert import architecture_of, export, load
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.find import find_family
from anyformer.huggingface.form import Form, form_of
from anyformer.huggingface.peft_files import read_adapter, write_adapter
from anyformer.huggingface.registry import FAMILIES, family, own, read_architecture
from anyformer.huggingface.verify import Verdict, verify

__all__ = [
    "FAMILIES",
    "Config",
    "Family",
    "Form",
    "HuggingFaceError",
    "Verdict",
    "architecture_of",
    "export",
    "family",
    "find_family",
    "form_of",
    "load",
    "own",
    "read_adapter",
    "read_architecture",
    "read_config",
    "verify",
    "write_adapter",
]
