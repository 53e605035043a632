"""What each process of a run says, and where: the first to the user and to the loggers, the others into files of their own."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import forking
from anyformer.cli import processes
from anyformer.describe import UserError
from anyformer.mesh import Mesh
from anyformer.training import load_run, train
from anyformer.training.journal import read_metrics
from anyformer.training.parallel.together import Together

LOGGED = Path(__file__).with_name("logged.py")


def test_two_processes_tokenise_together_train_as_one_does_and_the_first_speaks(run_of, start, tmp_path, monkeypatch):
    text = tmp_path / "text.jsonl"
    text.write_text("".join(f'{{"text": "def f{n}(x): return x + {n * n % 97}"}}\n' for n in range(2000)), encoding="utf-8")
    finished = start(2, LOGGED, run_of("llama-3-8b"), "run", text)
    assert finished.returncode == 0, finished.stderr[-3000:]
    made = [line.split() for line in (tmp_path / "made").read_text().splitlines()]
    assert {rank for rank, _ in made} == {"0", "1"}, "each tokenised a part"
    assert sorted(int(number) for _, number in made) == list(range(len(made))), "and none what the other did"
    monkeypatch.setenv("ANYFORMER_CACHE", str(tmp_path / "alone"))
    train(load_run(run_of("llama-3-8b"), {"data.paths": [str(text)]}), tmp_path / "one")
    tokens = [{path.name: path.read_bytes() for path in (tmp_path / cache).rglob("*.bin")} for cache in ("cache", "alone")]
    assert tokens[0] == tokens[1] != {}
    losses = [[row["loss"] for row in read_metrics(tmp_path / name)] for name in ("run", "one")]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    told = [line.split() for line in (tmp_path / "told").read_text().splitlines()]
    assert {rank for rank, _ in told} == {"0"}
    assert {int(step) for _, step in told} == {row["step"] for row in read_metrics(tmp_path / "run")}
    assert not list((tmp_path / "run" / "ranks").glob("0.log"))
    said = (tmp_path / "run" / "ranks" / "1.log").read_text()
    assert "step 8/8" in said
    assert re.search(r"checkpoint of step 4: [1-9]\S* kB written", said), "its share"


def test_a_refusal_is_told_once_and_leaves_nothing(run_of, start, tmp_path):
    """Whether the processes are connected or not; one that finds it late is not ended before it tells."""
    (tmp_path / "store" / "run").mkdir(parents=True)
    (tmp_path / "store" / "run" / "run.toml").touch()
    words = ["-m", "anyformer", "train", run_of("llama-3-8b"), "--out", "run", "--set"]
    store = f"checkpoints.store=file://{tmp_path / 'store'}"
    for said, change in (("already holds a run", store), ("plan.mesh is", "plan.mesh.shard=4")):
        finished = start(2, *words, change)
        assert finished.returncode == 2
        assert finished.stderr.count(said) == 1, finished.stderr[-3000:]
        assert not (tmp_path / "run").exists()


def test_a_group_is_ended_when_one_fails_whenever_its_status_is_seen():
    """A process's pipe closes before its status can be had: it may come between two looks."""
    ended = []

    class Late:
        def __init__(self, *codes):
            (self.sentinel, closed), self.codes = os.pipe(), list(codes)
            os.close(closed)

        @property
        def exitcode(self):
            return self.codes.pop(0) if len(self.codes) > 1 else self.codes[0]

        def terminate(self):
            ended.append(self)
            self.codes = [-15]

    one, other = Late(None, 2), Late(*[None] * 9, 7)
    assert forking.ended([one, other]) == 2
    assert ended == [other]
    for each in (one, other):
        os.close(each.sentinel)


@pytest.mark.parametrize(
    ("rank", "teller", "tells", "waits"),
    [(0, None, True, 0), (1, None, True, processes.GRACE), (0, 1, False, processes.GRACE / 2), (1, 1, True, 0)],
)
def test_one_process_tells_an_error(rank, teller, tells, waits, monkeypatch):
    for name, value in (("WORLD_SIZE", "2"), ("RANK", str(rank))):
        monkeypatch.setenv(name, value)
    waited, error = [0.0], UserError("wrong")
    error.teller = teller
    monkeypatch.setattr(processes.time, "sleep", waited.append)
    assert (processes.tells(error), waited[-1]) == (tells, waits)


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


@pytest.mark.parametrize(("command", "words"), [("train", ["run.toml"]), ("data", ["prepare", "run.toml"])])
def test_torchrun_leaves_every_option_to_the_command(command, words):
    """Its parser looks at all words, and takes the beginning of one of its own options for that option."""
    from torch.distributed.run import get_args_parser
    from typer.main import get_command

    from anyformer.cli import app

    params = get_command(app).commands[command].params  # type: ignore[attr-defined]
    for option in (name for each in params for name in each.opts if name.startswith("--")):
        given = [command, *words, option, "x"]
        asked = get_args_parser().parse_args(["--nproc-per-node", "2", "-m", "anyformer", *given])
        assert asked.training_script_args == given
