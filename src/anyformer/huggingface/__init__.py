"""Hugging Face checkpoints both ways: a directory of transformers' layout to a model of ours, and back."""

from anyformer.huggingface.card import Facts
from anyformer.huggingface.composites import COMPOSITES
from anyformer.huggingface.config import Config, read_config
from anyformer.huggingface.convert import architecture_of, load
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.find import find_family
from anyformer.huggingface.gguf import export_gguf
from anyformer.huggingface.missing import MISSING
from anyformer.huggingface.peft_files import read_adapter, write_adapter
from anyformer.huggingface.peft_merging import merge_adapter
from anyformer.huggingface.pixels import pixels
from anyformer.huggingface.registry import (
    ALIASES,
    FAMILIES,
    READ_ONLY,
    family,
    family_of,
    own,
    read_architecture,
    register,
    text_keys,
)
from anyformer.huggingface.sound.models import HEARING
from anyformer.huggingface.sounds import sounds
from anyformer.huggingface.stored_form import StoredForm, form_of
from anyformer.huggingface.towers import CompositeTower, TowersAsked, aside, left_aside, told_of, towers_asked
from anyformer.huggingface.trained_pixels import TrainedPixels
from anyformer.huggingface.two_towers import export_two_towers, load_two_towers, read_two_towers
from anyformer.huggingface.verify import Verdict, verify
from anyformer.huggingface.writing import export

__all__ = [
    "ALIASES",
    "COMPOSITES",
    "FAMILIES",
    "HEARING",
    "MISSING",
    "READ_ONLY",
    "CompositeTower",
    "Config",
    "Facts",
    "Family",
    "HuggingFaceError",
    "StoredForm",
    "TowersAsked",
    "TrainedPixels",
    "Verdict",
    "architecture_of",
    "aside",
    "export",
    "export_gguf",
    "export_two_towers",
    "family",
    "family_of",
    "find_family",
    "form_of",
    "left_aside",
    "load",
    "load_two_towers",
    "merge_adapter",
    "own",
    "pixels",
    "read_adapter",
    "read_architecture",
    "read_config",
    "read_two_towers",
    "register",
    "sounds",
    "text_keys",
    "told_of",
    "towers_asked",
    "verify",
    "write_adapter",
]
