"""Cases of mutated data: configurations of Hugging Face's layout, and descriptions of ours."""

from __future__ import annotations

import json
import random
from functools import cache
from typing import Any

from zoo import ZOO

from anyformer.catalogue import architecture, listing
from anyformer.costs import cost
from anyformer.describe import from_toml, to_toml
from anyformer.huggingface.config import Config
from anyformer.huggingface.registry import read_architecture
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from fuzz.kind import Case, Kind
from fuzz.mutate import mutated
from huggingface.cases import CASES

BUILT = 2e8
"""Parameters up to which a valid description is built on the meta device."""


def configuration(seed: int) -> Case:
    """A mutated configuration, read, and priced where it is valid."""
    draw = random.Random(seed)
    case = draw.choice(CASES)
    data = mutated({**case.config, "model_type": case.model_type}, draw)

    def run() -> None:
        cost(read_architecture(Config(data))[0])

    return run


def description(seed: int) -> Case:
    """A mutated description, parsed; where it is valid it goes through TOML and is priced and built without memory."""
    draw = random.Random(seed)
    data = mutated(_plain(draw.choice(_names())), draw)

    def run() -> None:
        made = Architecture.parse(data)
        assert from_toml(Architecture, to_toml(made)) == made, "TOML gives another description"
        sheet = cost(made)
        str(sheet)
        if sheet.params.total <= BUILT and sum(stack.depth for stack in made.stacks.values()) <= 100:
            import torch

            with torch.device("meta"):
                Transformer(made)

    return run


@cache
def _names() -> list[str]:
    return [*ZOO, *(entry.name for entry in listing())]


@cache
def _plain(name: str) -> dict[str, Any]:
    found = ZOO.get(name) or architecture(name, tiny=True)
    return json.loads(json.dumps(found.plain()))


KINDS = {"configurations": Kind(configuration, 10_000, 400), "descriptions": Kind(description, 10_000, 150)}
