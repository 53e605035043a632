"""Sets of parts by name: what a slot holds, however it is given, found by paths that skip the slot, changed and written."""

from __future__ import annotations

import copy
import pickle
from typing import ClassVar, Literal

import pytest

from anyformer.describe import DescriptionError, Part, PartSet, Positive, Registry, Value, change, diff, from_toml, get, to_toml


class Finish(Part):
    members: ClassVar[dict[str, type[Part]]] = {}


class Polish(Finish):
    name: ClassVar[str] = "polish"
    order: ClassVar[int] = 1
    coats: int = 2


class Colour(Finish):
    name: ClassVar[str] = "colour"
    kinds: ClassVar[Registry] = Registry()
    kind: str


class Red(Colour):
    kind: Literal["red"] = "red"
    share: float = 0.5


class Sanding(Finish):
    name: ClassVar[str] = "sanding"
    order: ClassVar[int] = -1
    short: ClassVar[str] = "grit"
    grit: Positive


class Making(Value):
    through: ClassVar[tuple[str, ...]] = ("finish",)
    finish: PartSet[Finish] = PartSet()


class Chair(Value):
    through: ClassVar[tuple[str, ...]] = ("making",)
    legs: int = 4
    making: Making = Making()


CHAIR = Chair(making=Making(finish=(Polish(), None, Red(), Sanding(grit=80.0))))


def test_parts_stand_in_their_order_whoever_gives_them():
    assert list(CHAIR.making.finish) == ["sanding", "colour", "polish"]
    assert Making(finish=Red()).finish == Making(finish=[Red()]).finish == Making(finish={"colour": {"kind": "red"}}).finish
    assert Making(finish=None).finish == PartSet()
    assert Making(finish=(Red(), Polish())) == Making(finish=(Polish(), Red()))


def test_it_survives_text_copies_and_pickles():
    assert from_toml(Chair, to_toml(CHAIR).partition("\n\n")[2].join(["legs = 4\n\n", ""])) == CHAIR
    assert copy.deepcopy(CHAIR) == pickle.loads(pickle.dumps(CHAIR)) == CHAIR
    assert hash(CHAIR.making.finish) == hash(Making(finish=tuple(CHAIR.making.finish.values())).finish)


def test_paths_skip_the_slot():
    assert get(CHAIR, "polish.coats") == 2
    assert get(Chair(), "polish") is None
    assert get(change(CHAIR, "colour.share", 0.25), "making.finish.colour.share") == 0.25
    assert change(CHAIR, "polish", None) == CHAIR.but(polish=None)
    assert diff(CHAIR, CHAIR.but(polish=None)) == [("polish", Polish(), None)]
    assert change(Chair(), "sanding", 120.0) == Chair().but(sanding=120.0) == Chair(making={"finish": Sanding(grit=120.0)})


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"polsh": {}}, "has no part 'polsh'; did you mean 'polish'"),
        ({"polish": {"coats": "two"}}, r"polish.coats: .*'two'"),
        ({"colour": {"kind": "green"}}, "colour: 'green' is no kind"),
        ({"colour": {}}, "colour: says no kind"),
        ({"sanding": -1.0}, "sanding.grit: should be greater than 0"),
        (7, "should be a table"),
    ],
)
def test_what_is_wrong_is_told_at_its_place(data, said):
    with pytest.raises(DescriptionError, match=said):
        Chair.parse({"making": {"finish": data}})


def test_two_parts_of_one_name_are_refused():
    with pytest.raises(ValueError, match="two parts are called polish"):
        PartSet(Polish(), Polish(coats=3))
    with pytest.raises(TypeError, match="name = 'polish', which is that of"):

        class Other(Finish):
            name: ClassVar[str] = "polish"


def test_a_field_of_an_absent_part_says_how_to_set_it():
    with pytest.raises(DescriptionError, match="polish is absent: set it as a whole"):
        change(Chair(), "polish.coats", 3)
