"""A deliberately wrong thing, and exactly which contracts it breaks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

Promises = Mapping[str, Callable[[], object]]
T = TypeVar("T")


@dataclass(frozen=True)
class Wrong:
    """A wrong thing: `promises` has all contracts that it owes, `breaks` the names of those that it breaks, and of no other.

    `because`: why more than one is broken; such a mistake shows no contract to be needed by itself.
    """

    name: str
    promises: Callable[[], Promises]
    breaks: tuple[str, ...]
    because: str = ""

    def __post_init__(self) -> None:
        assert (len(self.breaks) > 1) == bool(self.because), f"{self.name}: several contracts have a reason, one has none"


@dataclass
class Table:
    """The wrong things of one kind, in the order of their definition."""

    owed: Callable[[Any], Promises]
    """What a thing promises."""
    wrong: dict[str, Wrong] = field(default_factory=dict)

    def breaks(self, *contracts: str, because: str = "", of: Callable[[Any], object] | None = None) -> Callable[[T], T]:
        """Enter what is defined below, a class or a function; `of` makes of it what owes the contracts."""

        def enter(made: T) -> T:
            name = made.__name__  # type: ignore[attr-defined]
            assert name not in self.wrong, f"{name} is there twice"
            self.wrong[name] = Wrong(name, lambda: self.owed(made if of is None else of(made)), contracts, because)
            return made

        return enter

    def alone(self) -> set[str]:
        """The contracts that some wrong thing breaks alone."""
        return {each.breaks[0] for each in self.wrong.values() if len(each.breaks) == 1}


def broken(promises: Promises, names: Collection[str] | None = None) -> dict[str, str]:
    """The errors of the broken contracts, of all or of those with these names."""
    errors = {}
    for name in promises if names is None else names:
        try:
            promises[name]()
        except Exception as error:  # any exception breaks a contract
            errors[name] = f"{type(error).__name__}: {error}"
    return errors
