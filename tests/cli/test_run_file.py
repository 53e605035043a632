"""`anyformer plan --write`: the run of a layout."""

from __future__ import annotations

import pytest

from anyformer.api import architecture
from anyformer.cli.run_file import TrainingOptions
from anyformer.describe import UserError
from anyformer.mesh import Mesh
from anyformer.plan import Plan
from anyformer.planning.layout import Layout
from anyformer.planning.planner import plan_training
from anyformer.training import load_run
from anyformer.training.parallel import Alone, check_mesh
from anyformer.training.planned_run import line_of, mesh_of, run_of


@pytest.fixture(scope="module")
def planned():
    model = architecture("mixtral-8x7b", tiny=True)
    return plan_training(model, ranks=8, batch_tokens=1024, length=32, hardware="h100", runs=True)


def test_a_layout_becomes_a_run_that_starts(planned, tmp_path):
    file = tmp_path / "run.toml"
    said = TrainingOptions(write=file).written(architecture("mixtral-8x7b", tiny=True), planned, Plan())
    run, layout = load_run(file), planned.fastest[0].layout
    assert f"torchrun --nproc-per-node 8 -m anyformer train {file}" in said
    assert (run.batch, run.length, run.accumulation) == (32, 32, layout.micro_batches)
    assert run.plan.mesh == mesh_of(layout)
    assert run.plan.checkpointing == layout.checkpointing
    check_mesh(run, Alone(size=8, replicas=run.plan.mesh.replicas))


def test_every_layout_that_is_told_runs(planned):
    assert all(mesh_of(each.layout).over(8).replicas for each in planned.fastest)


def test_what_states_would_be_sharded_is_nothing_to_a_run_that_shards_none():
    assert mesh_of(Layout(dp=4, tp=2, sharded="optimiser")) == Mesh(data=4, tensor=2)


def test_layouts_without_a_mesh_are_refused():
    for layout in (Layout(pp=2), Layout(fsdp=2, sharded="optimiser"), Layout(dp=2, ep=2), Layout(tp=2, sp=False)):
        with pytest.raises(UserError, match="is priced, and not run yet"):
            mesh_of(layout)


def test_the_line_names_nodes():
    model = architecture("mixtral-8x7b", tiny=True)
    run = run_of(model, Layout(dp=2, fsdp=8), length=32, paths=("python-stdlib",), plan=Plan())
    assert line_of(run, "run.toml", 8).startswith("torchrun --nnodes 2 --rdzv-backend c10d")
    assert line_of(run, "run.toml", 16) == "torchrun --nproc-per-node 16 -m anyformer train run.toml"
