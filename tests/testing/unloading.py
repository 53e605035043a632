"""Plug-ins of tests: the one of docs/extend.md, and a way to forget what was loaded."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from anyformer.describe import Part, Value, plugins
from anyformer.describe.value import subclasses
from anyformer.huggingface import plugin_families

PAGE = Path(__file__).parents[2] / "docs" / "extend.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.S | re.M)


def page_code() -> str:
    """The file that the page's Python blocks are."""
    return "\n\n".join(text for language, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")) if language == "python")


@contextlib.contextmanager
def forgetting() -> Iterator[None]:
    """At the end everything is as before: modules, names of plug-ins, kinds, families."""
    before, modules = {id(each) for each in known()}, set(sys.modules)
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.dict(plugin_families._REGISTERED))
        for slot in {id(each.members): each.members for each in subclasses(Part) if "members" in vars(each)}.values():
            stack.enter_context(mock.patch.dict(slot))
        stack.enter_context(mock.patch.dict(os.environ, {plugins.VARIABLE: ""}))
        stack.enter_context(mock.patch.object(plugins, "_tried", set()))
        stack.enter_context(mock.patch.object(sys, "path", list(sys.path)))
        try:
            yield
        finally:
            for each in known():
                if id(each) not in before and plugins.plugin_of(each.__module__) is not None:
                    del each.kinds._classes[each.model_fields["kind"].default]
            for name in set(sys.modules) - modules:
                if "." not in name and _outside(name):
                    del sys.modules[name]


def known() -> list[type[Value]]:
    """Every class that a registry has."""
    classes = [each for each in subclasses(Value) if each.kinds is not None and "kind" in each.model_fields]
    return [each for each in dict.fromkeys(classes) if each.kinds._classes.get(each.model_fields["kind"].default) is each]


def _outside(name: str) -> bool:
    """Whether a module is a test's own: in no installed package."""
    file = getattr(sys.modules[name], "__file__", None)
    return file is not None and "pytest" in file
