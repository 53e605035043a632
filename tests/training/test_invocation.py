"""Commands that are printed for the user run as printed, however the program was started."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from anyformer.training.invocation import command


@pytest.fixture
def installed(tmp_path) -> Path:
    """The program in a directory of its own."""
    program = tmp_path / "bin of mine" / "anyformer"
    program.parent.mkdir()
    program.write_text("")
    program.chmod(0o755)
    return program


def started(monkeypatch, program: Path, path: Path | None) -> str:
    """What is printed by a program that was started as `program train`, with this directory as PATH."""
    monkeypatch.setattr(sys, "argv", [str(program), "train"])
    monkeypatch.setenv("PATH", "" if path is None else os.fspath(path))
    return command("train", "--resume", Path("a run"))


def test_a_program_on_the_path_is_called_by_its_name(installed, monkeypatch):
    assert started(monkeypatch, installed, installed.parent) == "anyformer train --resume 'a run'"


def test_a_program_elsewhere_is_called_by_its_path(installed, monkeypatch):
    assert started(monkeypatch, installed, None) == f"'{installed}' train --resume 'a run'"


def test_a_module_is_called_by_the_interpreter_that_has_it(installed, monkeypatch):
    said = started(monkeypatch, Path("anyformer/__main__.py"), installed.parent)
    assert said == f"{sys.executable} -m anyformer train --resume 'a run'"


def test_training_in_several_processes_is_continued_in_as_many(installed, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "4")
    launched = "-m torch.distributed.run --nproc-per-node 4 -m anyformer train --resume 'a run'"
    assert started(monkeypatch, installed, None) == f"{sys.executable} {launched}"
    torchrun = Path(sys.executable).with_name("torchrun")
    said = started(monkeypatch, installed, torchrun.parent)
    assert said == "torchrun --nproc-per-node 4 -m anyformer train --resume 'a run'"
    assert command("show", "a") == f"'{installed}' show a", "one process reads what several wrote"
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setenv("MASTER_ADDR", "one")
    words = "--nnodes 2 --rdzv-backend c10d --rdzv-endpoint one --nproc-per-node 2"
    assert started(monkeypatch, installed, torchrun.parent).startswith(f"torchrun {words} -m anyformer train")
