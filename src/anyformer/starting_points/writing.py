"""Files that are written together: all or none."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from anyformer.describe import UserError
from anyformer.files import check_file, write_text


@dataclass(frozen=True)
class NewFiles:
    """New files, and others with their new text, below a folder."""

    folder: Path
    new: Mapping[str, str]
    changed: Mapping[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """Refuse a new file that is there, and any that cannot be written."""
        for name in self.new:
            if (self.folder / name).exists():
                raise UserError(f"{self.folder / name} is there already: move it away, or take another name")
        for name in (*self.new, *self.changed):
            check_file(self.folder / name)

    def write(self) -> None:
        """Write all of them, checked before the first."""
        self.check()
        before = {name: (self.folder / name).read_text(encoding="utf-8") for name in self.changed}
        begun: list[str] = []
        try:
            for name, text in (*self.new.items(), *self.changed.items()):
                begun.append(name)
                write_text(self.folder / name, text)
        except BaseException:
            self._undo(begun, before)
            raise

    def _undo(self, names: list[str], before: Mapping[str, str]) -> None:
        for name in names:
            if name in before:
                write_text(self.folder / name, before[name])
            elif (self.folder / name).exists():
                os.unlink(self.folder / name)
