"""A directory for what a process of tests makes once and many tests read."""

from __future__ import annotations

from functools import cached_property
from tempfile import TemporaryDirectory


class Scratch:
    """Made when its name is first asked for: in a run of tests within pytest's own directory, which is deleted however a run
    ended (`conftest.py`), and elsewhere a temporary one, deleted at the end."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    @cached_property
    def _made(self) -> TemporaryDirectory[str]:
        return TemporaryDirectory(prefix=self.prefix)

    @property
    def name(self) -> str:
        return self._made.name
