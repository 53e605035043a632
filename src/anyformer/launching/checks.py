"""A run is checked against the processes that are to share it, before a script is written."""

from __future__ import annotations

from anyformer.describe import UserError
from anyformer.launching.cluster import Cluster
from anyformer.launching.launch import Launch
from anyformer.mesh import Mesh
from anyformer.training import Run
from anyformer.training.parallel import Alone, check_mesh


def check_layout(run: Run, cluster: Cluster, launch: Launch) -> None:
    """Raise `UserError` unless the mesh is that of nodes x gpus processes, for every number of nodes that the run can have, and
    these can share the run."""
    cluster.check(launch)
    fewest = cluster.fewest
    if fewest is not None and fewest > launch.nodes:
        raise UserError(f"fewest = {fewest} is more than --nodes {launch.nodes}: set it lower, or leave it out")
    for nodes in cluster.counts(launch):
        _check(run, nodes, launch)


def _check(run: Run, nodes: int, launch: Launch) -> None:
    processes, asked = nodes * launch.gpus, run.plan.mesh
    try:
        mesh = asked.over(processes)
    except ValueError:
        raise UserError(_another(asked, nodes, launch)) from None
    try:
        check_mesh(run.but(plan=run.plan.but(mesh=mesh)), Alone(size=processes, replicas=mesh.replicas))
    except UserError as error:
        raise UserError(f"{_said(nodes, launch)}: {error}") from None


def notes(run: Run, launch: Launch) -> list[str]:
    """What of a layout is allowed and slow, in words."""
    tensor = run.plan.mesh.tensor
    if tensor == 1 or launch.gpus % tensor == 0:
        return []
    return [
        f"plan.mesh.tensor = {tensor} does not divide the {launch.gpus} processes of a node: sublayers are divided over the "
        "network, which is slow"
    ]


def _another(asked: Mesh, nodes: int, launch: Launch) -> str:
    """Why nodes do not make the processes of a mesh, and how many would."""
    needed = (asked.data or 1) * asked.divided
    sizes = " x ".join(f"{name} {size}" for name, size in asked.sizes.items())
    each = "processes" if asked.data else "processes or a multiple of them"
    enough = f"--nodes {needed // launch.gpus}" if needed % launch.gpus == 0 else "other --nodes and --gpus"
    return (
        f"plan.mesh is {sizes}, which takes {needed} {each}, and {_said(nodes, launch)} make {nodes * launch.gpus}: start with "
        f"{enough}, or change plan.mesh in {launch.run}"
    )


def _said(nodes: int, launch: Launch) -> str:
    return f"{nodes} node{'s' * (nodes > 1)} of {launch.gpus}"
