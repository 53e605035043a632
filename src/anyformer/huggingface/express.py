"""Which family of transformers says exactly what an architecture says."""

from __future__ import annotations

from typing import Any

from anyformer.describe import Named, UserError, diff
from anyformer.huggingface.config import Config, HuggingFaceError
from anyformer.huggingface.family import FAMILIES, Family, families_of, family
from anyformer.model import Architecture
from anyformer.parts import Initialisation, Stack
from anyformer.parts.order import write_order


def express(architecture: Architecture, model_type: str | None = None) -> tuple[Family, dict[str, Any]]:
    """The family and configuration that give exactly this architecture (how weights start aside).

    Without `model_type` the first family that can; raises with the reasons of the nearest where none can.
    """
    candidates = [family(model_type)] if model_type else [each for file in FAMILIES for each in families_of(file)]
    spellings, wanted = (architecture, architecture.spelled_out()), _canonical(architecture)
    reasons: list[tuple[int, str]] = []
    for each in candidates:
        differences = _attempt(each, spellings, wanted)
        if not isinstance(differences, list):
            return each, differences
        reasons.append((len(differences), f"{each.model_type}: {'; '.join(differences[:4])}"))
    nearest = "\n  ".join(reason for _, reason in sorted(reasons)[:3])
    raise HuggingFaceError(f"no family of transformers expresses this architecture; the nearest:\n  {nearest}")


def _attempt(each: Family, spellings: tuple[Architecture, Architecture], wanted: Architecture) -> dict[str, Any] | list[str]:
    """The configuration, or how far the family is from what is `wanted`.

    What a family gives for a size that is left out may not be what follows from the others here; written out it is.
    """
    as_it_stands, spelled_out = spellings
    found = _written(each, as_it_stands, wanted)
    return found if isinstance(found, dict) else _written(each, spelled_out, wanted)


def _written(each: Family, architecture: Architecture, wanted: Architecture) -> dict[str, Any] | list[str]:
    try:
        config = {**each.write(architecture), "model_type": each.model_type}
        again = each.read(Config(config))
    # What is not of a family breaks its code anywhere: a field that is not there, layers that do not alternate as its own do.
    except (UserError, LookupError, AttributeError, AssertionError, TypeError, ValueError) as error:
        return [(str(error) or type(error).__name__).splitlines()[0]] * 99
    differences = diff(_canonical(again), wanted)
    return [f"{path}: {left!r} there, {right!r} here" for path, left, right in differences] or config


def _canonical(architecture: Architecture) -> Architecture:
    """What is equal for architectures that compute the same: how weights start and what layers are called do not count."""
    plain = {"initialisation": Initialisation()} | {name: _numbered(stack) for name, stack in architecture.stacks.items()}
    return architecture.but(**plain).spelled_out()


def _numbered(stack: Stack) -> Stack:
    """Variants called by the order in which they come; the names stay where a layer speaks of another's."""
    if any(sublayer.keys_of for block in stack.variants.values() for sublayer in block.sublayers):
        return stack
    names = {name: f"layer{i}" for i, name in enumerate(dict.fromkeys(stack.layers))}
    return stack.but(
        variants=Named({names[name]: stack.variants[name] for name in names}),
        order=write_order(names[name] for name in stack.layers),
        shared_weights=tuple(names[name] for name in stack.shared_weights),
    )
