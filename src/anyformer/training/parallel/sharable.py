"""Which runs several processes can share."""

from __future__ import annotations

from anyformer.describe import UserError
from anyformer.mesh import Mesh
from anyformer.model.narrowed import divided_branches, undivided
from anyformer.model.unlearnt import unlearnt
from anyformer.objectives import beside
from anyformer.parts.layers.stack import Stack
from anyformer.parts.sublayer import Sublayer
from anyformer.planning.communication import bubble
from anyformer.planning.layout import bounds
from anyformer.planning.staged import Staged, read_again, undivided_layers
from anyformer.precision import BYTES
from anyformer.quantising import FORMATS, Quantising
from anyformer.training.parallel.ranks import Ranks
from anyformer.training.run import Run


def check_mesh(run: Run, ranks: Ranks) -> None:
    """Raise `UserError` for a run that several processes cannot share."""
    if ranks.size == 1:
        return
    pieces = ranks.replicas * run.accumulation
    if run.batch % pieces:
        among = f"into {run.accumulation} pieces for each of" if run.accumulation > 1 else "among"
        raise UserError(f"batch = {run.batch} does not divide {among} {_groups(ranks)}: make it a multiple of {pieces}")
    try:
        # A process computes a piece of the batch, as one process does with accumulation.
        run.objective.sizes.check(run.length, run.batch, pieces)
    except ValueError as error:
        raise UserError(f"{_groups(ranks)} cut the batch into {pieces} pieces: {error}") from None
    _check_numbers(run)
    check_divided(run)
    if statistics := sorted(name for name in unlearnt(run.architecture) if "running_" in name):
        raise UserError(f"{statistics[0]} is a mean over all rows, and a process has some of them: train in one process")


def _check_numbers(run: Run) -> None:
    """Raise `UserError` for number formats whose scales or blocks the mesh would divide, or that change divided weights."""
    mesh, precision, base = run.plan.mesh, run.plan.precision, run.tuning.base
    if precision.weight_bytes < BYTES["fp32"]:
        raise UserError(
            f"plan.precision = {precision.kind!r}: its optimiser rounds weights when they are divided already, and they cannot "
            "change their type then: train in one process, or set plan.precision = 'bf16'"
        )
    narrow = precision.narrow
    if narrow is not None and narrow.shares in ("channel", "block") and max(mesh.tensor, mesh.context) > 1:
        raise UserError(
            f"plan.precision = {precision.kind!r}: plan.mesh.tensor and plan.mesh.context divide rows and blocks that share a "
            "scale: divide by plan.mesh.shard or pipeline, or set plan.precision = 'fp8' with scaling = 'tensor' or 'running'"
        )
    everywhere = len(run.architecture.stacks) > 1 or beside(run.objective)
    if mesh.pipeline > 1 and narrow is not None and narrow.shares == "running" and everywhere:
        raise UserError(
            f"plan.precision = {precision.kind!r} with scaling = 'running': every stage of plan.mesh.pipeline computes other "
            "models and stacks, each with a part of their gradients, and would keep scales of its own: set scaling = 'tensor', "
            "or leave pipeline out"
        )
    if isinstance(FORMATS[base], Quantising) and max(mesh.tensor, mesh.expert) > 1:
        raise UserError(
            f"tuning.base = {base!r}: plan.mesh.tensor and plan.mesh.expert cut matrices, and would cut their blocks: divide "
            "by plan.mesh.shard or pipeline, or set tuning.base = 'bf16'"
        )


def check_divided(run: Run) -> None:
    """Raise `UserError` for a mesh whose dimensions divide nothing of the model, or what they cannot divide."""
    mesh, architecture = run.plan.mesh, run.architecture
    if mesh.pipeline > 1:
        _check_layers(run)
    if mesh.context > 1:
        _check_positions(run)
    stacks = architecture.stacks.values()
    if mesh.tensor > 1 and not any(divided_branches(stack, architecture.width, mesh.tensor) for stack in stacks):
        raise UserError(
            f"plan.mesh.tensor = {mesh.tensor} divides the heads or the features of no sublayer: choose a divisor of them"
        )
    if mesh.expert > 1:
        experts = bounds(architecture).experts
        if not experts:
            raise UserError(f"plan.mesh.expert = {mesh.expert} divides experts, and the model has none: leave it out")
        if uneven := [count for count in experts if count % mesh.expert]:
            raise UserError(f"plan.mesh.expert = {mesh.expert} must divide the experts of every layer, and one has {uneven[0]}")


def mesh_lines(run: Run, ranks: Ranks) -> list[str]:
    """What the processes of a run divide, and what of the model they do not, in words."""
    if ranks.size == 1:
        return []
    sizes = run.plan.mesh.over(ranks.size).sizes
    lines = [f"{ranks.size} processes: {' x '.join(f'{name} {size}' for name, size in sizes.items())}"]
    if (mesh := run.plan.mesh).pipeline > 1:
        lines.append(_order_line(mesh, run.accumulation))
    if whole := undivided(run.architecture, sizes.get("tensor", 1)):
        lines.append(f"plan.mesh.tensor does not divide {', '.join(whole)}: every process computes them whole")
    return lines


def _order_line(mesh: Mesh, pieces: int) -> str:
    """The order of a pipeline's passes, and how long its processes wait for one another, in words."""
    waits = bubble([1.0] * mesh.pipeline, pieces, mesh.chunks, mesh.schedule)
    order = {"1f1b": "one forward, one backward", "zero_bubble": "gradients of weights apart (zero-bubble)"}[mesh.schedule]
    chunks = f"{mesh.chunks} chunks of layers per process, " if mesh.chunks > 1 else ""
    return f"pipeline: {chunks}{order}; {waits / (1 + waits):.0%} of a step's time waits where stages take equally long"


def _check_positions(run: Run) -> None:
    """Raise `UserError` for a run whose positions cannot be divided."""
    architecture = run.architecture
    blocks = [block for stack in architecture.stacks.values() for block in stack.variants.values()]
    if all(sublayer.gathers(architecture.width) is None for block in blocks for sublayer in block.sublayers):
        raise UserError("plan.mesh.context divides positions of attention and of feed-forward networks, and the model has none")
    for stack in architecture.stacks.values():
        _check_readers(stack, architecture.width)
        _check_filters(stack)


def _check_filters(stack: Stack) -> None:
    """Raise `UserError` where what a branch gives is filtered over neighbouring positions."""
    for name, block in stack.variants.items():
        for branch, each in block.branches.items():
            if each.residual_convolution is not None:
                raise UserError(
                    f"plan.mesh.context: {name}.{branch}.residual_convolution reads the positions before each, of which "
                    "processes have a share: leave context out"
                )


def _check_readers(stack: Stack, width: int) -> None:
    """Raise `UserError` where a layer of a process's own positions reads what another left of all, or the other way round."""

    def whole(sublayer: Sublayer) -> bool:
        return sublayer.gathers(width) is None

    apart = [
        (name, read)
        for name, block in stack.variants.items()
        for reader in block.sublayers
        for read in reader.reads
        for other in (() if read.variant is None else stack.variants[read.variant].sublayers)
        if read.name in other.leaves and whole(other) != whole(reader)
    ]
    if apart:
        name, read = apart[0]
        raise UserError(
            f"plan.mesh.context: layers {name!r} read {read.name!r} of layers {read.variant!r}, and some of them compute all "
            "positions in every process, the others a share: leave context out"
        )


def _check_layers(run: Run) -> None:
    """Raise `UserError` for a run whose layers or pieces of a batch no pipeline can divide."""
    mesh = run.plan.mesh
    if problem := undivided_layers(Staged(run.architecture, mesh.pipeline, mesh.chunks)):
        raise UserError(f"plan.mesh.pipeline = {mesh.pipeline}: {problem}")
    if mesh.schedule == "zero_bubble" and (problem := read_again(run.architecture)):
        raise UserError(f"plan.mesh.schedule = 'zero_bubble': {problem}")
    if mesh.schedule == "zero_bubble" and run.plan.checkpointing != "none":
        raise UserError(
            "plan.mesh.schedule = 'zero_bubble' would compute layers again for both halves of a backward pass: leave it out, "
            f"or plan.checkpointing = {run.plan.checkpointing!r}"
        )
    if run.accumulation < mesh.pipeline:
        raise UserError(
            f"plan.mesh.pipeline = {mesh.pipeline} processes need as many pieces of a batch to work at, and "
            f"accumulation = {run.accumulation}: set accumulation to {mesh.pipeline} or more (four times as many keep "
            "them busy)"
        )
    if run.accumulation % mesh.pipeline and (mesh.chunks, mesh.schedule) != (1, "1f1b"):
        said = f"chunks = {mesh.chunks}" if mesh.chunks > 1 else f"schedule = {mesh.schedule!r}"
        raise UserError(
            f"plan.mesh.{said} goes through the pieces of a batch {mesh.pipeline} at a time, and accumulation = "
            f"{run.accumulation}: set it to a multiple of plan.mesh.pipeline = {mesh.pipeline}"
        )


def _groups(ranks: Ranks) -> str:
    """The replicas of a run, in words."""
    each = ranks.size // ranks.replicas
    return f"{ranks.size} processes" if each == 1 else f"{ranks.replicas} groups of {each} processes"
