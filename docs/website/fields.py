"""For mkdocstrings: of a class, the reference shows its fields and what has a docstring, not the methods by which the house asks it."""

from __future__ import annotations

from typing import Any

from griffe import Class, Extension, Kind


class Fields(Extension):
    """Leaves out methods and properties without a docstring, and variables of a class that are no fields of its values."""

    def on_class_members(self, *, cls: Class, **given: Any) -> None:
        for name, member in list(cls.members.items()):
            if member.is_alias or name == "__init__":
                continue
            undocumented = member.docstring is None
            constant = member.kind is Kind.ATTRIBUTE and "class-attribute" in member.labels and "ClassVar" in str(member.annotation)
            if (member.kind is Kind.FUNCTION and undocumented) or (undocumented and "property" in member.labels) or constant:
                del cls.members[name]
