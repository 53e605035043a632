"""What each process of a run says, and where: the first to the user and to the loggers, the others into files of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

from anyformer.mesh import Mesh
from anyformer.training.journal import read_metrics
from anyformer.training.parallel.together import Together

LOGGED = Path(__file__).with_name("logged.py")


def test_only_the_first_process_tells_the_loggers(run_of, start, tmp_path):
    finished = start(2, LOGGED, run_of("llama-3-8b"), "run")
    assert finished.returncode == 0, finished.stderr[-3000:]
    told = [line.split() for line in (tmp_path / "told").read_text().splitlines()]
    assert {rank for rank, _ in told} == {"0"}
    assert {int(step) for _, step in told} == {row["step"] for row in read_metrics(tmp_path / "run")}
    assert not list((tmp_path / "run" / "ranks").glob("0.log"))
    assert "step 8/8" in (tmp_path / "run" / "ranks" / "1.log").read_text()


def test_the_file_of_another_process_is_closed_with_the_run(tmp_path):
    nothing: Any = None
    one, first = (Together(Mesh(), nothing, nothing, None, nothing, nothing, rank, 2, nothing) for rank in (1, 0))
    with one.console(Console(), tmp_path) as console:
        console.out("one")
        file = console.file
    assert file.closed
    with one.console(None, tmp_path) as console:
        console.out("two")
    assert (tmp_path / "ranks" / "1.log").read_text() == "one\ntwo\n"
    own = Console()
    with first.console(own, tmp_path) as console:
        assert console is own


def test_torchrun_leaves_every_option_of_training_to_it():
    """Its parser looks at all words, and takes the beginning of one of its own options for that option."""
    from torch.distributed.run import get_args_parser
    from typer.main import get_command

    from anyformer.cli import app

    train = get_command(app).commands["train"]  # type: ignore[attr-defined]
    for option in (name for each in train.params for name in each.opts if name.startswith("--")):
        words = ["train", "run.toml", option, "x"]
        asked = get_args_parser().parse_args(["--nproc-per-node", "2", "-m", "anyformer", *words])
        assert asked.training_script_args == words
