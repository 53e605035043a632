"""What becomes of a run when one of its processes dies, or has a loss that is not finite; and what is refused."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from anyformer.api import architecture
from anyformer.describe import UserError, change_all
from anyformer.mesh import Mesh
from anyformer.objectives import ContrastiveObjective, SpanCorruptionObjective
from anyformer.training import default_run, load_run
from anyformer.training.journal import read_metrics
from anyformer.training.parallel import Alone, check_mesh
from anyformer.training.parallel.launch import mesh_of

TROUBLED = Path(__file__).with_name("troubled.py")


@pytest.mark.parametrize("launcher", ["start", pytest.param("torchrun", marks=pytest.mark.slow)])
def test_a_process_that_dies_ends_the_run(run_of, launcher, request, tmp_path):
    finished = request.getfixturevalue(launcher)(2, TROUBLED, run_of("llama-3-8b"), "run", "dies")
    assert finished.returncode != 0
    said = r"rank 1 on \S+ is lost \(it ended, or cannot be reached\); rank 0 waited for it in \w+ \(\S+:\d+\); .*--resume"
    told = re.findall(f"LostProcessError: ({said})", finished.stderr)
    assert len(told) == 1, finished.stderr[-6000:]
    assert "exchange_clock" not in told[0]
    assert "did not come" not in finished.stderr
    assert json.loads((tmp_path / "run" / "end.json").read_text())["reason"] == told[0]
    assert [row["step"] for row in read_metrics(tmp_path / "run")] == [1, 2]


@pytest.mark.slow  # the launcher gives the process that hangs half a minute to end
def test_a_process_that_hangs_ends_the_run(run_of, torchrun, tmp_path):
    finished = torchrun(2, TROUBLED, run_of("llama-3-8b"), "run", "hangs")
    assert finished.returncode != 0
    assert "another process of this run ended or does not answer" in finished.stderr
    said = finished.stderr.split("ended or does not answer")[-1]
    assert re.search(r"rank 1 on \S+ did not come: it is in update \(\S*troubled.py:\d+\)", said)
    assert "time.sleep(1)" in said, "with its stack"
    assert re.search(r"rank 0 waits in \w+ \(training/\S+:\d+\)", said)
    assert "rank 1 on" in said.split("closing signal SIGTERM")[-1], "it says where it is once more, when it is told to end"
    assert [row["step"] for row in read_metrics(tmp_path / "run")] == [1, 2]
    hanging = int(finished.stdout.split(" hangs")[0].split()[-1])
    with pytest.raises(ProcessLookupError):
        os.kill(hanging, 0)


def test_a_loss_that_is_not_finite_in_one_is_skipped_by_all(run_of, start, tmp_path):
    finished = start(2, TROUBLED, run_of("llama-3-8b"), "run", "nan")
    assert finished.returncode == 0, finished.stderr[-3000:]
    (skipped,) = [row for row in read_metrics(tmp_path / "run") if row["kind"] == "skipped"]
    assert skipped["step"] == 3
    assert len([row for row in read_metrics(tmp_path / "run") if row["kind"] == "train"]) == 8


def test_a_mesh_is_that_of_the_processes():
    assert Mesh().over(4) == Mesh(data=4)
    assert Mesh(shard=2).over(8) == Mesh(data=4, shard=2)
    with pytest.raises(
        UserError, match=r"is shard 4, and 6 processes were started: .*--nproc-per-node 4 .*--set plan.mesh.shard=6"
    ):
        mesh_of(Mesh(shard=4), 6)
    with pytest.raises(UserError, match=r"data 2 x shard 2, and 1 process was started: .*--nproc-per-node 4"):
        mesh_of(Mesh(data=2, shard=2), 1)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"batch": 6}, r"batch = 6 does not divide into 2 pieces for each of 4 processes: make it a multiple of 8"),
        ({"batch": 6, "accumulation": 1}, r"batch = 6 does not divide among 4 processes: make it a multiple of 4"),
        ({"plan.precision": "pure_bf16"}, r"plan.precision = 'pure_bf16': its optimiser rounds weights"),
        (
            {"plan.precision": "mxfp8", "plan.mesh.tensor": 2},
            r"plan.precision = 'mxfp8': plan.mesh.tensor and plan.mesh.context",
        ),
        (
            {"tuning.base": "nf4", "tuning.train_only": ["head.*"], "plan.mesh.tensor": 2},
            r"tuning.base = 'nf4': plan.mesh.tensor",
        ),
    ],
)
def test_what_several_processes_cannot_share_is_refused(run_of, changes, says):
    run = change_all(load_run(run_of("llama-3-8b")), {"batch": 8, **changes})
    check_mesh(run, Alone())
    with pytest.raises(UserError, match=says):
        check_mesh(run, Alone(size=4, replicas=4))


def test_scales_of_what_every_stage_computes_are_refused(run_of):
    changes = {"plan.precision": {"kind": "fp8", "scaling": "running"}, "plan.mesh.pipeline": 2, "accumulation": 2, "batch": 8}
    run = change_all(load_run(run_of("t5-small", objective=SpanCorruptionObjective())), changes)
    with pytest.raises(UserError, match=r"plan.precision = 'fp8' with scaling = 'running': every stage"):
        check_mesh(run, Alone(size=2, replicas=1))


def test_negatives_in_the_batch_cannot_be_shared(tmp_path):
    """A piece of the batch has fewer negatives, so several processes would train another model."""
    rows = tmp_path / "similar.jsonl"
    rows.write_text('{"text": "one", "positive": "1"}\n' * 20, encoding="utf-8")
    model = architecture("sentence-bert-base", tiny=True)
    run = default_run(model, (str(rows),), ContrastiveObjective()).but(batch=8)
    with pytest.raises(UserError, match=r"4 processes cut the batch into 4 pieces: the contrastive objective"):
        check_mesh(run, Alone(size=4, replicas=4))
