"""Models of which a process holds a part: FSDP2 over a mesh of copies and of processes that divide a copy.

Each layer is gathered while it computes, and its gradients are summed when they are known (`fully_shard`, Zhao et al. 2023,
arXiv 2304.11277). Weights that no gradient moves, such as corrections of routers, stay whole. Of frozen matrices in few bits
the planes are divided and gathered, as they are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar

from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.fsdp._fully_shard._fsdp_common import FSDPMeshInfo, HSDPMeshInfo, ShardPlacementResult
from torch.distributed.tensor import Shard

from anyformer.model.transformer import Transformer
from anyformer.model.unlearnt import unlearnt
from anyformer.parts.call.context import Context
from anyformer.parts.layers.block_module import BlockModule
from anyformer.quantising.planes import planes_of, set_apart

T = TypeVar("T")


class Root(nn.Module):
    """All models of a run as one module, whose forward pass is any function of theirs: its hooks gather what they need."""

    def __init__(self, models: Sequence[Transformer]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)

    def forward(self, act: Callable[[], T]) -> T:
        return act()

    def give_back(self) -> None:
        """Hold parts alone again of the weights outside the layers, which stay whole after a forward pass."""
        assert isinstance(self, FSDPModule), "`sharded` made it one"
        self.reshard()

    def sum_over_copies(self, now: bool, outside: bool = False) -> None:
        """See `Copies`; `outside`: whether gradients of weights outside the layers are summed in any case."""
        assert isinstance(self, FSDPModule), "`sharded` made it one"
        self.set_requires_all_reduce(now)
        self.set_requires_all_reduce(now or outside, recurse=False)


class Hidden:
    """A context of which FSDP sees nothing."""

    def __init__(self, context: Context) -> None:
        self.context = context


class Hiding(nn.Module):
    """A layer whose context is hidden from FSDP, which looks for tensors in arguments and copies what holds some: values that a
    layer leaves for others would be left in the copy."""

    def __call__(self, x_BTD: Tensor, context: Context, *states: object) -> Tensor:
        return super().__call__(x_BTD, Hidden(context), *states)  # type: ignore[no-any-return]

    def forward(self, x_BTD: Tensor, hidden: Hidden, *states: object) -> Tensor:
        return super().forward(x_BTD, hidden.context, *states)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class OwnMesh:
    """Weights that are sharded over a mesh of their own, because each process computes with a part of them only."""

    weights: Collection[nn.Parameter] = ()
    mesh: DeviceMesh | None = None

    def placement(self) -> Callable[[nn.Parameter], ShardPlacementResult | None]:
        """The argument of `fully_shard` that tells them apart; weights of one mesh must have one and the same `mesh_info`."""
        if self.mesh is None:
            return lambda weight: None
        own = set(self.weights)
        info = FSDPMeshInfo(self.mesh, 0) if self.mesh.ndim == 1 else HSDPMeshInfo(self.mesh, 1, 0)
        return lambda weight: ShardPlacementResult(Shard(0), info) if weight in own else None


def sharded(models: Sequence[Transformer], mesh: DeviceMesh, apart: OwnMesh, *, compiled: bool) -> Root:
    """Divide the weights of models over a mesh: of processes that divide a copy, or of copies and these. `compiled`: each
    layer."""
    for model in models:
        set_apart(model)
    root = Root(models)
    kept = {weight for model in models for weight in _kept(model)}
    placement = apart.placement()
    for layer in layers_of(models):
        layer.__class__ = type(type(layer).__name__, (Hiding, type(layer)), {})
        if compiled:
            layer.compile(fullgraph=True, dynamic=False)
        fully_shard(layer, mesh=mesh, ignored_params=kept, shard_placement_fn=placement)
    fully_shard(root, mesh=mesh, ignored_params=kept, shard_placement_fn=placement)
    for module in root.modules():
        if isinstance(module, FSDPModule):
            # Losses are divided by the targets of all processes, so gradients are summed; gloo has no sum with a factor.
            module.set_force_sum_reduction_for_comms(True)
            module.set_gradient_divide_factor(1.0)
    return root


def gather_within(root: Root, runs: Iterable[Sequence[nn.Module]]) -> None:
    """Let the backward pass of each run of layers gather its own ahead: FSDP takes the layers of the latest forward pass, which
    was of another chunk of a pipeline."""
    if not isinstance(root, FSDPModule):
        return
    # The root is there already: no layer is gathered ahead.
    root.set_modules_to_backward_prefetch([root])
    for layers in runs:
        before: FSDPModule = root
        for layer in layers:
            assert isinstance(layer, FSDPModule), "`sharded` made it so"
            layer.set_modules_to_backward_prefetch([before])
            before = layer


@contextmanager
def kept_whole(root: Root) -> Iterator[None]:
    """Within, weights stay gathered once they are, and gradients add up whole; behind it these are summed over processes and
    copies, once, whatever `Root.sum_over_copies` was told.

    As torch's schedules do it for stages that are divided themselves (`PipelineStage.perform_reduce_grad`).
    """
    _gather(root, again=False)
    try:
        yield
    finally:
        _gather(root, again=True)
    assert isinstance(root, FSDPModule), "`sharded` gave it"
    state = root._get_fsdp_state()
    for each in state._state_ctx.all_states:
        for group in each._fsdp_param_groups:
            group.post_backward()
    state._root_post_backward_final_callback()


def _gather(root: Root, *, again: bool) -> None:
    """Let weights be gathered per pass of a layer and gradients be summed behind it, or not."""
    for module in root.modules():
        if isinstance(module, FSDPModule):
            module.set_reshard_after_forward(again and not isinstance(module, Root), recurse=False)
            module.set_reshard_after_backward(again, recurse=False)
            module.set_requires_gradient_sync(again, recurse=False)
            module.set_is_last_backward(again)


def _kept(model: Transformer) -> Iterator[nn.Parameter]:
    """The weights of a model that stay whole."""
    still, planes = unlearnt(model.architecture), planes_of(model)
    return (weight for name, weight in model.named_parameters() if planes.get(name, name) in still)


def layers_of(models: Iterable[Transformer]) -> list[nn.Module]:
    """The layers of all stacks that this process has, each once."""
    return list(dict.fromkeys(layer for run in runs_of(models) for layer in run))


def runs_of(models: Iterable[Transformer]) -> list[list[nn.Module]]:
    """The layers that this process has, by runs of neighbours: those of a stack, or of each chunk of it."""
    found: list[list[nn.Module]] = []
    for model in models:
        for name in model.architecture.stacks:
            layers = model.get_submodule(f"{name}.layers").children()
            found += [list(run) for here, run in groupby(layers, lambda each: isinstance(each, BlockModule)) if here]
    return found
