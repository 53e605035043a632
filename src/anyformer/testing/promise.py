"""A contract of one thing, what it presupposes, and what was found when it was asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Promise:
    """A contract of one thing: `holds` raises if it is broken.

    Without `holds` it cannot be tested: `missing` says what has to be given for it. `needed`: whether that counts as a failure.
    """

    of: str
    what: str
    holds: Callable[[], object] | None = None
    missing: str = ""
    needed: bool = True
    needs: tuple[str, ...] = ()
    """Contracts of the same thing that it presupposes."""
    inside: tuple[str, ...] = ()
    """Other things that stand in this one, of which it presupposes every contract."""
    number: int = 0
    """Which example of several; what an earlier one breaks, later ones are not asked."""
    about: str = ""
    """Words by which it is found too."""

    @property
    def named(self) -> str:
        """What it is of, with the number of the example."""
        return f"{self.of} ({self.number})" if self.number else self.of

    def matches(self, text: str) -> bool:
        """Whether `text` is in its name, or in that of what it is of."""
        return text in f"{self.named} {self.what} {self.what.replace('_', ' ')} {self.about}"


@dataclass(frozen=True)
class Finding:
    """Whether a promise is kept: the error if it is not, None if it cannot be tested or was not asked."""

    promise: Promise
    kept: bool | None
    why: str = ""
    follows: Promise | None = None
    """The broken promise because of which it was not asked."""

    @property
    def fails(self) -> bool:
        """Whether something is wrong that is not said of an earlier promise."""
        return self.kept is False or (self.kept is None and self.promise.needed and self.follows is None)

    @property
    def says(self) -> str:
        """What was found, in a word or two."""
        if self.kept is not None:
            return "holds" if self.kept else "does not hold"
        if self.follows is not None:
            return "not asked"
        return "missing" if self.promise.needed else "not compared"


def find(promise: Promise) -> Finding:
    """Test a promise."""
    if promise.holds is None:
        return Finding(promise, None, promise.missing)
    try:
        promise.holds()
    except Exception as error:  # any exception of a plug-in breaks its promise
        said = str(error).strip()
        return Finding(
            promise, False, said if isinstance(error, AssertionError) and said else f"{type(error).__name__}: {said}"
        )
    return Finding(promise, True)


def ask(promises: Iterable[Promise]) -> Iterator[Finding]:
    """Test promises in their order, but those that presuppose a broken one: of a mistake the first thing is told."""
    roots: dict[tuple[str, str], Promise] = {}
    for promise in promises:
        presupposed = [(promise.of, what) for what in (promise.what, *promise.needs)] + [(of, "") for of in promise.inside]
        root = next((roots[key] for key in presupposed if key in roots), None)
        finding = find(promise) if root is None else Finding(promise, None, follows=root)
        if root is not None or finding.kept is False:
            roots.setdefault((promise.of, promise.what), root or promise)
            roots.setdefault((promise.of, ""), root or promise)
        yield finding
