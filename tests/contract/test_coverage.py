"""Every field of every description is moved from its default by some architecture of the zoo."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from typing import Any, get_args

import pytest
from pydantic_core import PydanticUndefined
from zoo import ZOO
from zoo_images import IN_TILES, WITH_IMAGES
from zoo_sound import WITH_SOUND

from anyformer import parts
from anyformer.describe import DescriptionError, Value
from anyformer.describe.value import subclasses
from anyformer.model import Architecture
from anyformer.parts import (
    ALiBi,
    Attention,
    BlockIndexer,
    CrossAttention,
    Differential,
    Exclusive,
    ForgettingGate,
    Joined,
    MeanKeys,
    QKNorm,
    RMSNorm,
    Rotary,
    Score,
    Softpick,
    SpanConvolution,
    ValueConvolution,
    ValueResidual,
    Window,
)
from covering import moved


def described(annotation: Any) -> Iterator[type[Value]]:
    """The description classes that an annotation names: of a family of parts all of the package's own."""
    if isinstance(annotation, type) and issubclass(annotation, Value):
        if "members" in annotation.__dict__:
            for part in filter(of_package, annotation.members.values()):
                yield from described(part)
        elif annotation.kinds is None or annotation.model_fields["kind"].default is not PydanticUndefined:
            yield annotation
        else:
            yield from (each for each in annotation.kinds.values() if of_package(each) and issubclass(each, annotation))
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
    left = unmoved({**ZOO, **WITH_IMAGES, **IN_TILES, **WITH_SOUND})
    assert not left, f"no architecture of tests/contract/zoo*.py has this part, or moves this field from its default: {left}"


def test_every_part_is_imported_with_the_package():
    """A kind that nothing imports is unknown to descriptions."""
    for module in pkgutil.walk_packages(parts.__path__, f"{parts.__name__}."):
        importlib.import_module(module.name)
    bases = {kind for kind in subclasses(Value) if "kinds" in kind.__dict__}
    own = {kind for base in bases for kind in base.kinds.values() if kind.__module__.startswith(f"{parts.__name__}.")}
    missing = {f"{kind.__module__}.{kind.__name__}" for kind in own if getattr(parts, kind.__name__, None) is not kind}
    assert not missing, f"import into src/anyformer/parts/__init__.py: {missing}"


CHOOSING = Attention(heads=4, score=Score(choice=BlockIndexer()))
DIVIDED = Attention(heads=4, place=Rotary())


@pytest.mark.parametrize(
    ("attention", "name", "part", "named"),
    [
        (CHOOSING, "keys_from", "own", "keys_from"),
        (CHOOSING, "virtual_tokens", 2, "virtual_tokens"),
        (CHOOSING, "score_bias", ALiBi(), "score_bias"),
        (CHOOSING, "forget", ForgettingGate(), "forget"),
        (CHOOSING, "softcap", 2.0, "softcap"),
        (CHOOSING, "sink", "head", "sink"),
        (CHOOSING, "weigh", Softpick(), "softpick"),
        (CHOOSING, "weigh", Differential(), "differential"),
        (CHOOSING, "convolution", SpanConvolution(), "convolution"),
        (CHOOSING, "joined", Joined(), "joined"),
        (CHOOSING, "mask", Window(size=3), "the mask 'window'"),
        (CHOOSING, "value_convolution", ValueConvolution(), "value_convolution"),
        (DIVIDED.but(keys_from="own"), "value_residual", ValueResidual(variant="first"), "value_residual"),
        (DIVIDED.but(keys_from="own"), "exclusive", Exclusive(), "exclusive"),
        (DIVIDED.but(weigh=Differential()), "exclusive", Exclusive(), "exclusive"),
        (DIVIDED.but(weigh=Differential()), "value_convolution", ValueConvolution(), "value_convolution"),
        (CrossAttention(heads=4), "score_bias", ALiBi(), "score_bias"),
        (CrossAttention(heads=4), "value_residual", ValueResidual(variant="first"), "value_residual"),
        (CrossAttention(heads=4), "choice", MeanKeys(), "choice"),
        (CrossAttention(heads=4), "qk_norm", QKNorm(norm=RMSNorm(), at="after_rotary"), "qk_norm.at"),
    ],
)
def test_parts_that_do_not_go_together_are_refused(attention, name, part, named):
    with pytest.raises(DescriptionError, match=rf"{named}.* out|value_convolution looks ahead"):
        attention.but(**{name: part})


def test_a_field_that_nothing_moves_is_named():
    assert "Score.softcap" in unmoved({"llama": ZOO["llama"]})
    assert "LatentAttention" in unmoved({"llama": ZOO["llama"]})
