"""Where a class has what it has no field for: inside fields that a path leaves out, as the scores of an attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel

from anyformer.describe.problems import bare_type, classes_of, kinds_of
from anyformer.describe.spelling import spelled

DEEPEST = 3
"""Fields inside one another that are looked into."""


@dataclass(frozen=True)
class Inside:
    """The fields that lead to it, and how Python says it: `score=Score(terms=ALiBi(...))`."""

    keys: tuple[str, ...]
    python: str

    def __str__(self) -> str:
        return f"in a file it is {'.'.join(self.keys)}, in Python {self.python}"


def inside(owner: type[BaseModel], name: str, part: type | None = None, depth: int = DEEPEST) -> Inside | None:
    """Where something of a name is held inside `owner`, or a `part` whatever its name; None where nowhere."""
    skipped: tuple[str, ...] = getattr(owner, "through", ())
    for field in skipped if depth else ():
        declared = owner.model_fields[field]
        annotation = bare_type(declared.annotation)
        if (held := _held(annotation, name, part)) is not None:
            member, kind = held
            return Inside((field, member), f"{field}={kind.__name__}(...)" if _is_whole(kind) else f"{field}=...")
        for each in _classes(annotation, declared.default):
            own = spelled(name, each.model_fields)
            if own in each.model_fields and own != "kind":
                return Inside((field, own), f"{field}={each.__name__}({own}=...)")
            if (found := inside(each, name, part, depth - 1)) is not None:
                return Inside((field, *found.keys), f"{field}={each.__name__}({found.python})")
    return None


def _held(annotation: Any, name: str, part: type | None) -> tuple[str, type] | None:
    """The name and the class under which a set of parts holds something; None of what is no set, or does not."""
    items = [each for each in get_args(annotation) if isinstance(each, type)]
    for base in items:
        members: dict[str, type] = getattr(base, "members", {})
        own = {name: kind for name, kind in members.items() if issubclass(kind, base)}
        if (known := spelled(name, own)) in own:
            return known, part if part is not None and issubclass(part, own[known]) else own[known]
        for member, kind in own.items():
            if part is not None and issubclass(part, kind):
                return member, part
    return None


def _is_whole(part: type) -> bool:
    """Whether it is a class to build, not a base of several kinds."""
    kind = part.model_fields.get("kind") if issubclass(part, BaseModel) else None
    return kind is None or isinstance(kind.default, str)


def _classes(annotation: Any, default: Any) -> list[type[BaseModel]]:
    """What may stand in a field: first what stands there by default; of a family of kinds without a default nothing."""
    classes = classes_of(annotation)
    if isinstance(default, BaseModel):
        return list(dict.fromkeys([type(default), *kinds_of(classes).values()]))
    return classes if len(classes) == 1 and _is_whole(classes[0]) else []
