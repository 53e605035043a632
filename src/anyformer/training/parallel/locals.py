"""Modules that compute with their process's parts of weights, which autograd and optimisers know as parts of whole tensors."""

from __future__ import annotations

from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, distribute_tensor


def hold(module: nn.Module, name: str, weight: Tensor, mesh: DeviceMesh, placement: Placement, share: float = 1.0) -> None:
    """Let a module hold a whole weight as `placement` says, and compute with its own part of it, times `share`.

    The gradient of a weight that every process has whole is the sum of the gradients that they find.
    """
    made = distribute_tensor(weight.detach(), mesh, [placement], src_data_rank=None)
    _put(module, name, made, weight.requires_grad, share)


def hold_part(
    module: nn.Module, name: str, part: Tensor, mesh: DeviceMesh, placements: list[Placement], learns: bool
) -> nn.Parameter:
    """Let a module hold `part`, what this process has of a weight that is divided over the mesh; gives the weight."""
    return _put(module, name, DTensor.from_local(part, mesh, placements, run_check=False), learns, 1.0)


def _put(module: nn.Module, name: str, weight: DTensor, learns: bool, share: float) -> nn.Parameter:
    module._parameters[name] = made = nn.Parameter(weight, requires_grad=learns)
    before = getattr(type(module), "_held", {})
    base = type(module).__mro__[1] if before else type(module)
    held: dict[str, property] = {**before, name: property(_Local(name, share, weight.device_mesh))}
    module.__class__ = type(base.__name__, (base,), {"_held": held, **held})
    return made


class _Local:
    """Reads this process's part of a weight: of one that is sharded by more than this mesh, the weight itself."""

    def __init__(self, name: str, share: float, mesh: DeviceMesh) -> None:
        self.name, self.share, self.mesh = name, share, mesh

    def __call__(self, module: nn.Module) -> Tensor | None:
        weight = module._parameters[self.name]
        if not isinstance(weight, DTensor) or weight.device_mesh != self.mesh:
            return weight
        gradient = [Partial() if isinstance(placement, Replicate) else placement for placement in weight.placements]
        part: Tensor = weight.to_local(grad_placements=gradient)
        return part if self.share == 1 else part * self.share
