"""Commands that the program prints for the user, written so that they run as printed."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

from anyformer.describe.plugins import named_plugins
from anyformer.mesh import started, started_here

NAME = "anyformer"


def command(*words: object) -> str:
    """A command line of this program: by its name if that is on the PATH, else by the path it was started with; with the
    plug-ins that were named for this one. `train` is started in as many processes as this one was."""
    plugins = [word for name in named_plugins() for word in ("--plugin", name)]
    program = _launcher() if words[:1] == ("train",) and started() > 1 else _program()
    return " ".join([program, *(shlex.quote(str(word)) for word in (*words, *plugins))])


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


def _launcher() -> str:
    """torchrun with this module, in as many processes as there are; on each machine, where there are several."""
    beside, found = Path(sys.executable).with_name("torchrun"), shutil.which("torchrun")
    same = found is not None and os.path.realpath(found) == os.path.realpath(beside)
    nodes = started() // started_here()
    meet = f"--nnodes {nodes} --rdzv-backend c10d --rdzv-endpoint {os.environ.get('MASTER_ADDR', 'HOST')} " if nodes > 1 else ""
    program = "torchrun" if same else f"{shlex.quote(sys.executable)} -m torch.distributed.run"
    return f"{program} {meet}--nproc-per-node {started_here()} -m {NAME}"
