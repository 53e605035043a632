"""Every field of every description is moved from its default by some architecture of the zoo."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from typing import Any, get_args

import pytest
from pydantic_core import PydanticUndefined
from zoo import ZOO
from zoo_images import WITH_IMAGES

from anyformer import parts
from anyformer.describe import DescriptionError, Value
from anyformer.describe.value import subclasses
from anyformer.model import Architecture
from anyformer.parts import (
    ALiBi,
    Bidirectional,
    BlockIndexer,
    Exclusive,
    ForgettingGate,
    Joined,
    Softpick,
    SpanConvolution,
    ValueConvolution,
    ValueResidual,
    Window,
)
from covering import moved

REFUSED = {
    "BlockSparseAttention.keys_from": "own",
    "BlockSparseAttention.virtual_tokens": 2,
    "BlockSparseAttention.score_bias": ALiBi(),
    "BlockSparseAttention.forget": ForgettingGate(),
    "BlockSparseAttention.softcap": 2.0,
    "BlockSparseAttention.sink": "head",
    "BlockSparseAttention.weights": Softpick(),
    "BlockSparseAttention.convolution": SpanConvolution(),
    "BlockSparseAttention.joined": Joined(),
    "BlockSparseAttention.mask": Window(size=3),
    "BlockSparseAttention.value_convolution": ValueConvolution(),
    "DifferentialAttention.keys_from": "own",
    "DifferentialAttention.values": "keys",
    "DifferentialAttention.value_residual": ValueResidual(variant="first"),
    "DifferentialAttention.exclusive": Exclusive(),
    "DifferentialAttention.value_convolution": ValueConvolution(),
}
"""Fields inherited from a base class that the class itself refuses to have moved, and a value that it refuses."""


def described(annotation: Any) -> Iterator[type[Value]]:
    """The description classes that an annotation names: of a family of parts all of the package's own."""
    if isinstance(annotation, type) and issubclass(annotation, Value):
        registry = annotation.__dict__.get("kinds")
        yield from [annotation] if registry is None else (each for each in registry.values() if of_package(each))
    for inner in get_args(annotation):
        yield from described(inner)


def of_package(kind: type) -> bool:
    """Parts that another test defines are no concern of the zoo's."""
    return kind.__module__.startswith("anyformer.")


def reachable() -> set[type[Value]]:
    """Every class of description that an architecture can hold."""
    found: set[type[Value]] = set()
    waiting: list[type[Value]] = [Architecture]
    while waiting:
        kind = waiting.pop()
        if kind not in found:
            found.add(kind)
            for field in kind.model_fields.values():
                for annotation in (field.annotation, *field.metadata):
                    waiting += described(annotation)
    return found


def unmoved(architectures: Mapping[str, Architecture]) -> set[str]:
    seen = {(kind, name) for architecture in architectures.values() for kind, name, _ in moved(architecture)}
    owed = {
        (kind, name)
        for kind in reachable()
        for name, field in [("", None), *kind.model_fields.items()]
        if name != "kind" and (field is None or field.get_default(call_default_factory=True) is not PydanticUndefined)
    }
    return {f"{kind.__name__}.{name}".rstrip(".") for kind, name in owed - seen}


def test_the_zoo_moves_every_field_of_every_description():
    left = unmoved({**ZOO, **WITH_IMAGES})
    missing, refused = left - REFUSED.keys(), REFUSED.keys() - left
    assert not missing, (
        f"no architecture of tests/contract/zoo*.py has this part, or moves this field from its default: {missing}"
    )
    assert not refused, f"the zoo moves fields that REFUSED lists as refused: {refused}"


def test_every_part_is_imported_with_the_package():
    """A kind that nothing imports is unknown to descriptions."""
    for module in pkgutil.walk_packages(parts.__path__, f"{parts.__name__}."):
        importlib.import_module(module.name)
    bases = {kind for kind in subclasses(Value) if "kinds" in kind.__dict__}
    own = {kind for base in bases for kind in base.kinds.values() if kind.__module__.startswith(f"{parts.__name__}.")}
    missing = {f"{kind.__module__}.{kind.__name__}" for kind in own if getattr(parts, kind.__name__, None) is not kind}
    assert not missing, f"import into src/anyformer/parts/__init__.py, and name in its __all__: {missing}"


MADE = {
    "DifferentialAttention": {"heads": 4, "mask": Bidirectional()},
    "BlockSparseAttention": {"heads": 4, "choice": BlockIndexer()},
}


@pytest.mark.parametrize("field", REFUSED)
def test_fields_that_nothing_can_move_are_refused(field):
    kind, name = field.split(".")
    with pytest.raises(DescriptionError, match=rf"leave .*{name}.* out|leave the {name} .* out|value_convolution looks ahead"):
        getattr(parts, kind)(**{**MADE[kind], name: REFUSED[field]})


def test_a_field_that_nothing_moves_is_named():
    assert "Attention.softcap" in unmoved({"llama": ZOO["llama"]})
    assert "LatentAttention" in unmoved({"llama": ZOO["llama"]})
