"""A run is watched from its directory: what the page says, at every end that a run may come to."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from anyformer.cli.run_page import lines
from anyformer.cli.text_chart import ROWS, chart
from anyformer.cli.watch import follow
from anyformer.describe import UserError
from anyformer.exploring.run_status import RunFiles, runs

USAGE = {
    "tokens_per_second_per_device": 640.0, "mfu": 0.4125, "hfu": 0.55, "memory": 3 * 10**9, "communication": 0.25,
    "data": 0.01, "saving": 0.0, "slowest": {"rank": 3, "host": "n7", "own": 1.31},
    "fastest": {"rank": 0, "host": "n1", "own": 0.97},
}  # fmt: skip


def update(step, **more):
    row = {"kind": "train", "step": step, "loss": 4.0 - step / 10, "gradient_norm": 1.5, "tokens": step * 1280}
    return {**row, "learning_rate": 1e-3, "seconds": 2.0, **more}


def add(directory, *rows, end="\n"):
    with (directory / "metrics.jsonl").open("a") as file:
        file.write("".join(json.dumps(row) + "\n" for row in rows[:-1]) + json.dumps(rows[-1]) + end)


@pytest.fixture
def going(tmp_path):
    """A run of ten updates of which four are made, by this very process."""
    directory = tmp_path / "one"
    directory.mkdir()
    (directory / "run.toml").write_text("steps = 10\nbatch = 4\n")
    (directory / ".lock").write_text(str(os.getpid()))
    add(directory, update(1), update(2), {"kind": "validation", "step": 2, "loss": 3.9, "last": False})
    add(directory, {"kind": "skipped", "step": 3, "batch": 2}, update(3), update(4, usage=USAGE))
    (directory / "checkpoints" / "step-00000003").mkdir(parents=True)
    return directory


def said(directory):
    return "\n".join(lines(RunFiles(directory).status(), 90))


def test_the_page_says_where_a_run_is_and_what_it_makes_of_the_machine(going):
    page = said(going)
    for words in (
        "one: running", "step        4 of 10 (40%), 12 s of updates left", "loss        3.6000",
        "validation  3.9000 at step 2, best 3.9000 at step 2", "rate        0.001, gradient norm 1.5",
        "speed       640 tokens/s, 640 per device, MFU 41.2%, HFU 55.0%", "memory      3 GB",
        "time in     communication 25.0%, data 1.0%, saving 0.0%",
        "processes   slowest rank 3 on n7 1.31, fastest rank 0 on n1 0.97", "checkpoint  step 3, ", "happened    1 skipped",
        "loss of * updates, o evaluations",
    ):  # fmt: skip
        assert words in page
    assert "no line for" not in page


def test_lines_of_an_older_version_have_less_to_say(going):
    add(going, update(5))
    page = said(going)
    assert "speed       640 tokens/s\n" in page
    assert not any(word in page for word in ("MFU", "memory", "time in", "processes"))


def test_new_lines_alone_are_read_and_a_line_that_is_being_written_is_waited_for(going):
    files = RunFiles(going)
    assert files.status().step == 4
    add(going, update(5), update(6), end="")
    assert files.status().step == 5
    with (going / "metrics.jsonl").open("a") as file:
        file.write("\n")
    found = files.status()
    assert [row["step"] for row in found.updates] == [1, 2, 3, 4, 5, 6]
    rest = (going / "metrics.jsonl").read_text().splitlines(keepends=True)[:2]
    (going / "new").write_text("".join(rest) + json.dumps(update(3, data="x" * 5000)) + "\n")
    (going / "new").replace(going / "metrics.jsonl")  # as a run does that goes back
    assert [row["step"] for row in files.status().updates] == [1, 2, 3]
    (going / "metrics.jsonl").write_text("".join(rest))
    assert files.status().step == 2


def test_a_run_that_says_nothing_for_long_is_told_of(going):
    os.utime(going / "metrics.jsonl", (0, 0))
    assert "no line for" in said(going)


def test_how_a_run_ended_is_told(going):
    end = {"state": "failed", "step": 4, "reason": "the loss is nan", "at": "2026-01-01T00:00:00+00:00"}
    (going / "end.json").write_text(json.dumps(end))
    assert said(going).startswith("one: running"), "it was resumed, and has not begun to train"
    (going / ".lock").unlink()
    assert said(going).startswith("one: failed (the loss is nan)\nstep        4 of 10 (40%)\n")
    (going / "end.json").unlink()
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    (going / ".lock").write_text(str(ended.pid))
    assert said(going).startswith(f"one: running elsewhere, or killed (process {ended.pid} is not on this machine)")
    (going / ".lock").unlink()
    assert said(going).startswith("one: stopped (no process trains in this directory)")
    add(going, *(update(step) for step in range(5, 11)))
    (going / "summary.json").write_text("{}")
    assert said(going).startswith("one: finished\nstep        10 of 10 (100%)\n"), "of a version without end.json"
    assert runs(os.getpid())


def test_a_run_that_has_just_begun_and_a_directory_that_is_none(tmp_path, call):
    (tmp_path / "run.toml").write_text("steps = 3\n")
    (tmp_path / ".lock").write_text(str(os.getpid()))
    assert said(tmp_path) == f"{tmp_path.name}: running\nstep        0 of 3 (0%)"
    with pytest.raises(UserError, match=r"not a run directory, it has no run\.toml"):
        RunFiles(tmp_path / "none")
    assert call("watch", "none", cwd=tmp_path).returncode == 2


def test_runs_stand_side_by_side_where_there_is_room(going, call):
    wide, narrow = (call("watch", str(going), str(going), "--once", columns=columns).stdout for columns in (130, 80))
    assert wide.splitlines()[0].count("one: running") == 2
    assert narrow.splitlines()[0].count("one: running") == 1
    assert narrow.count("one: running") == 2
    assert max(map(len, narrow.splitlines())) <= 80
    piped = call("watch", str(going))
    assert piped.returncode == 0
    assert "one: running" in piped.stdout, "in a pipe it is printed once"


def test_it_is_shown_until_every_run_has_ended_or_by_ctrl_c(going, capsys):
    waits = []

    def wait():
        waits.append(1)
        assert len(waits) < 9, "it watches for ever"
        if len(waits) == 2:
            (going / "end.json").write_text('{"state": "finished", "reason": ""}')
            (going / ".lock").unlink()

    follow([RunFiles(going)], wait)
    assert len(waits) == 2
    assert "one: finished" in capsys.readouterr().out
    (going / "end.json").unlink()
    (going / ".lock").write_text(str(os.getpid()))

    def interrupted():
        raise KeyboardInterrupt

    follow([RunFiles(going)], interrupted)
    assert "one: running" in capsys.readouterr().out


def test_to_watch_needs_no_torch(going):
    program = "import sys; sys.argv = ['anyformer', 'watch', sys.argv[1], '--once']; from anyformer.cli import main\n"
    program += "try:\n    main()\nexcept SystemExit:\n    pass\nprint('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program, str(going)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == "one: running"
    assert done.stdout.splitlines()[-1] == "False"


def test_a_chart_draws_the_mean_of_each_column():
    drawn = chart([("*", [(0, 4.0), (1, 2.0), (9, 1.0), (5, float("nan"))]), ("o", [(9, 1.0)])], 19, 9)
    assert len(drawn) == ROWS + 2
    assert drawn[0] == "  4.000 |*"
    assert drawn[ROWS - 1].startswith("  1.000 |")
    assert drawn[ROWS - 1].endswith("o"), "evaluations stand before updates"
    assert all(len(line) <= 19 for line in drawn)
    assert chart([("*", [])], 40, 9) == []
    assert len({line[9:].strip() for line in chart([("*", [(1, 2.0)])], 40, 3)[:ROWS]}) == 2, "one point, in the middle"
