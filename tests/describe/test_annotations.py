"""Annotations that are strings: evaluated when a class is made, or left to pydantic where a name is not there."""

from __future__ import annotations

from typing import Annotated, ClassVar

import pytest
from pydantic import Field

from anyformer.describe import DescriptionError, Value
from anyformer.describe.annotations import evaluated

Positive = Annotated[int, Field(gt=0)]


class Leaf(Value):
    through: ClassVar[tuple[str, ...]] = ("next",)
    size: Positive = 1
    next: Later | None = None
    beside: tuple[Leaf, ...] = ()


class Later(Value):
    name: str = ""


def test_fields_are_types_and_what_is_not_there_yet_is_found_later():
    assert vars(Leaf)["__annotations__"] == {
        "through": ClassVar, "size": Positive, "next": "Later | None", "beside": tuple[Leaf, ...],
    }  # fmt: skip
    assert evaluated(Leaf)["next"] == Later | None
    assert set(Leaf.model_fields) == {"size", "next", "beside"}
    made = Leaf(size=2, next=Later(name="a"), beside=(Leaf(),))
    assert Leaf.parse(made.plain()) == made
    with pytest.raises(DescriptionError, match="size"):
        Leaf(size=0)
    with pytest.raises(DescriptionError, match="name: should be a valid string"):
        Leaf.parse({"next": {"name": 3}})


def test_a_class_in_a_function_knows_the_names_around_it():
    Few = Annotated[int, Field(lt=3)]

    class Inner(Value):
        count: Few = 1
        size: Positive = 1

    assert vars(Inner)["__annotations__"] == {"count": "Few", "size": Positive}
    with pytest.raises(DescriptionError, match="count"):
        Inner(count=3)
