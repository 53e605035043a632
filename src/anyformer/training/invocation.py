"""Commands that the program prints for the user, written so that they run as printed."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

from anyformer.describe.plugins import named_plugins

NAME = "anyformer"


def command(*words: object) -> str:
    """A command line of this program: by its name if that is on the PATH, else by the path it was started with; with the
    plug-ins that were named for this one."""
    plugins = [word for name in named_plugins() for word in ("--plugin", name)]
    return " ".join([_program(), *(shlex.quote(str(word)) for word in (*words, *plugins))])


def _program() -> str:
    started = Path(sys.argv[0] or NAME)
    found = shutil.which(NAME)
    if started.name == NAME:
        on_path = found is not None and os.path.realpath(found) == os.path.realpath(started)
        return NAME if on_path else shlex.quote(str(started))
    # `python -m anyformer`, or a program that calls it: the interpreter has the module.
    beside = Path(sys.executable).with_name(NAME)
    if found is not None and os.path.realpath(found) == os.path.realpath(beside):
        return NAME
    return f"{shlex.quote(sys.executable)} -m {NAME}"
