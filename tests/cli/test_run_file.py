"""`anyformer plan --write`: the run of a layout."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from anyformer.api import architecture
from anyformer.cli import app
from anyformer.cli.run_file import TrainingOptions
from anyformer.describe import UserError, change_all, to_toml
from anyformer.mesh import Mesh
from anyformer.plan import Plan
from anyformer.planning.layout import Layout
from anyformer.planning.planner import plan_training
from anyformer.training import load_run
from anyformer.training.parallel import Alone, check_mesh
from anyformer.training.planned_run import line_of, mesh_of, run_of
from anyformer.training.run import Run


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


def test_a_run_that_is_laid_out_keeps_all_else(tmp_path):
    """Its data, tokenizer, steps, rate and store, beside an adapter; what the layout decides is told."""
    data = {"paths": ["corpus.txt"], "tokenizer": {"kind": "bytes"}}
    asked = {
        "architecture": architecture("llama-3-8b", tiny=True).plain(), "data": data, "steps": 77, "length": 32, "batch": 2,
        "optimiser": {"kind": "adamw", "learning_rate": 0.02}, "tuning": {"adapter": {"kind": "lora", "rank": 2}},
        "checkpoints": {"store": "s3://bucket/runs"}, "plan": {"precision": "fp32", "compile": "off"},
    }  # fmt: skip
    before, file, target = Run.parse(asked), tmp_path / "run.toml", tmp_path / "planned.toml"
    file.write_text(to_toml(before), encoding="utf-8")
    line = ["plan", str(file), "--gpus", "2", "--batch-tokens", "512", "--write", str(target)]
    result = CliRunner().invoke(app, line, env={"COLUMNS": "1000"})
    assert result.exit_code == 0, result.output
    after = load_run(target)
    assert "batch = 16 (was 2)" in result.output
    assert "length =" not in result.output
    decided = {"batch": after.batch, "accumulation": after.accumulation}
    own = before.plan.but(mesh=after.plan.mesh, checkpointing=after.plan.checkpointing)
    assert after == before.but(**decided, plan=own)
    assert after.plan.mesh.over(2).replicas
    # Its own data are not replaced.
    result = CliRunner().invoke(app, [*line[:-1], str(tmp_path / "other.toml"), "--data", "b.txt"], env={"COLUMNS": "1000"})
    assert "names its own data" in str(result.exception)


def test_every_layout_that_is_told_runs(planned):
    assert all(mesh_of(each.layout).over(8).replicas for each in planned.fastest)


def test_what_states_would_be_sharded_is_nothing_to_a_run_that_shards_none():
    assert mesh_of(Layout(dp=4, tp=2, sharded="optimiser")) == Mesh(data=4, tensor=2)


def test_a_pipeline_becomes_a_run_that_starts():
    model = change_all(architecture("llama-3-8b", tiny=True), {"decoder.order": "(layer)*4"})
    layout = Layout(fsdp=2, pp=2, chunks=2, micro_batch=2, micro_batches=4)
    run = run_of(model, layout, length=32, paths=("python-stdlib",), plan=Plan())
    assert run.plan.mesh == Mesh(data=1, shard=2, pipeline=2, chunks=2)
    check_mesh(run, Alone(size=4, replicas=2))
    assert "--nproc-per-node 4 " in line_of(run, "run.toml", 8)
    apart = Layout(fsdp=2, pp=2, micro_batches=2, sharded="optimiser", schedule="zero_bubble")
    assert mesh_of(apart) == Mesh(data=1, shard=2, pipeline=2, schedule="zero_bubble")


@pytest.mark.parametrize(("name", "pipelines"), [("llama-3-8b", True), ("albert-base-v2", False)])
def test_a_pipeline_is_proposed_where_a_run_can_have_it(name, pipelines):
    found = plan_training(architecture(name, tiny=True), ranks=2, batch_tokens=256, length=32, show=9, runs=True)
    assert any(each.layout.pp > 1 for each in found.fastest) == pipelines
    assert any("layer 1 has the weights of layer 0" in reason for reason in found.impossible) != pipelines


def test_layouts_without_a_mesh_are_refused():
    for layout in (
        Layout(pp=2),
        Layout(fsdp=2, pp=2, micro_batches=2, schedule="zero_bubble"),
        Layout(fsdp=2, sharded="optimiser"),
        Layout(dp=2, ep=2),
        Layout(tp=2, sp=False),
    ):
        with pytest.raises(UserError, match="is priced, and not run yet"):
            mesh_of(layout)


def test_the_line_names_nodes():
    model = architecture("mixtral-8x7b", tiny=True)
    run = run_of(model, Layout(dp=2, fsdp=8), length=32, paths=("python-stdlib",), plan=Plan())
    assert line_of(run, "run.toml", 8).startswith("torchrun --nnodes 2 --rdzv-backend c10d")
    assert line_of(run, "run.toml", 16) == "torchrun --nproc-per-node 16 -m anyformer train run.toml"
