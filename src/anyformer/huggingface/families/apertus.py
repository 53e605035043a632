"""Apertus: a plain network of xIELU, whose two curvatures are learned, and normed query and key heads."""

from __future__ import annotations

from anyformer.huggingface.family import Family
from anyformer.huggingface.words.apertus_line import NAMES, read

FAMILIES = (Family("apertus", read, NAMES, "ApertusForCausalLM", inert=("hidden_dropout",)),)
