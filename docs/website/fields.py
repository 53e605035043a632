"""For mkdocstrings: a value is shown by its fields, in a table; any other class by what has a docstring."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from griffe import (
    Alias,
    Attribute,
    Class,
    Docstring,
    DocstringParameter,
    DocstringSectionParameters,
    ExprCall,
    Extension,
    Function,
    Module,
)  # fmt: skip

VALUE = "anyformer.describe.value.Value"
"""The base of all frozen values."""
RESOLVED = "resolved"
"""`verb = resolved(function)`: a verb that takes whatever names an architecture, and is documented where the function is."""


class Fields(Extension):
    """Turns fields, those of the bases too, into the table of a class, and leaves out methods by which the house asks its values."""

    def on_package(self, *, pkg: Module, **given: Any) -> None:
        for name in ("api", "building"):
            _resolve(pkg[name], pkg)
        classes = list(_classes(pkg))
        values = {cls: _fields(cls) for cls in classes if any(base.path == VALUE for base in cls.mro())}
        for cls in classes:
            if (fields := values.get(cls)) is None:
                _leave_out(
                    cls, [name for name, each in cls.members.items() if isinstance(each, Function) and not each.has_docstring]
                )
            else:
                _leave_out(cls, list(cls.members))
                if fields:
                    cls.docstring = cls.docstring or Docstring("", parent=cls)
                    cls.docstring.parsed.append(DocstringSectionParameters([_row(each) for each in fields.values()], "Fields"))


def _resolve(module: Module, package: Module) -> None:
    """Let verbs of the package stand for the functions that they were made of."""
    for name, each in module.attributes.items():
        if isinstance(each.value, ExprCall) and each.value.canonical_name == RESOLVED:
            (function,) = each.value.arguments
            package.members[name] = Alias(name, target=function.canonical_path, parent=package)


def _classes(module: Module | Class) -> Iterator[Class]:
    for member in module.members.values():
        if isinstance(member, Class):
            yield member
        if isinstance(member, Module | Class):
            yield from _classes(member)


def _fields(cls: Class) -> dict[str, Attribute]:
    """The fields of a value, those of its bases before its own."""
    found: dict[str, Attribute] = {}
    for base in (*reversed(cls.mro()), cls):
        found |= {name: each for name, each in base.members.items() if isinstance(each, Attribute) and _is_field(each)}
    return found


def _is_field(each: Attribute) -> bool:
    """Whether values have it; what is a `ClassVar` belongs to the class alone."""
    return each.annotation is not None and "instance-attribute" in each.labels and "property" not in each.labels


def _row(each: Attribute) -> DocstringParameter:
    says = each.docstring.value if each.docstring else ""
    return DocstringParameter(each.name, annotation=each.annotation, description=says, value=each.value)


def _leave_out(cls: Class, names: list[str]) -> None:
    for name in names:
        del cls.members[name]
