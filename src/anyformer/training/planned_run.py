"""A run as the planner laid it out: what `torchrun` starts on as many accelerators."""

from __future__ import annotations

from anyformer.describe import UserError
from anyformer.mesh import Mesh
from anyformer.model import Architecture
from anyformer.plan import Plan
from anyformer.planning.layout import Layout
from anyformer.training.run import Run, default_run

STEPS = 1000
"""Updates of a written run."""


def run_of(
    architecture: Architecture, layout: Layout, *, length: int, paths: tuple[str, ...], plan: Plan, steps: int = STEPS
) -> Run:
    """A run on data at `paths` whose updates are those of the layout: its batch, pieces, mesh and recomputation.

    Raises `UserError` for a layout that no mesh is.
    """
    run = default_run(architecture, paths)
    return laid_out(run.but(minutes=None, steps=steps, length=length, plan=plan), layout)


def laid_out(run: Run, layout: Layout) -> Run:
    """The run with the batch, pieces, mesh and recomputation of the layout, without smaller sizes, whose batch is another.

    Raises `UserError` for a layout that no mesh is.
    """
    plan = run.plan.but(mesh=mesh_of(layout), checkpointing=layout.checkpointing)
    return run.but(smaller=(), batch=layout.sequences, accumulation=layout.micro_batches, plan=plan)


def replaced(before: Run, after: Run) -> tuple[str, ...]:
    """What a layout changed of a run: numbers with those before, all else by path."""
    numbers = [(name, getattr(before, name), getattr(after, name)) for name in ("length", "batch", "accumulation")]
    told = [f"{name} = {now:,} (was {was:,})" for name, was, now in numbers if now != was]
    told += [name for name in ("architecture", "smaller") if getattr(before, name) != getattr(after, name)]
    plans = ("mesh", "checkpointing", "precision")
    told += [f"plan.{name}" for name in plans if getattr(before.plan, name) != getattr(after.plan, name)]
    return tuple(told)


def mesh_of(layout: Layout) -> Mesh:
    """The mesh of a layout. Raises `UserError` for one that no run has."""
    if not layout.runs:
        raise UserError(
            f"{layout} is priced, and not run yet: a run shards weights wherever it shards states, divides experts among ranks "
            "that shard, and has a micro-batch per stage of a pipeline"
        )
    return Mesh(
        data=layout.dp, shard=layout.fsdp, tensor=layout.tp, expert=layout.ep, pipeline=layout.pp, chunks=layout.chunks,
        schedule=layout.schedule,
    )  # fmt: skip


def line_of(run: Run, file: str, node: int) -> str:
    """The command that starts the run, on nodes of `node` accelerators."""
    mesh = run.plan.mesh
    ranks = (mesh.data or 1) * mesh.divided
    nodes = f"--nnodes {ranks // node} --rdzv-backend c10d --rdzv-endpoint HOST:29500 " if ranks > node else ""
    return f"torchrun {nodes}--nproc-per-node {min(ranks, node)} -m anyformer train {file}"
