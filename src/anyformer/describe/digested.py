"""A description beside its digest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from anyformer.describe.value import Value

V = TypeVar("V", bound=Value)


@dataclass(frozen=True)
class Digested(Generic[V]):
    """A description and its digest, taken once at build time: layers with equal descriptions share masks and tables made of it.

    (A compiler can trace a comparison of strings, not the hash of a description.)
    """

    value: V
    digest: str

    @staticmethod
    def of(value: V) -> Digested[V]:
        return Digested(value, value.digest)
