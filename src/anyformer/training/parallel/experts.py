"""Expert parallelism: each process of a group holds some experts of every layer, and tokens travel to theirs and back

(Lepikhin et al. 2020, arXiv 2006.16668; Shazeer et al. 2017, arXiv 1701.06538, section 3.1).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, Shard

from anyformer.model.collectives import Group, counted, exchanged
from anyformer.model.transformer import Transformer
from anyformer.parts.experts.dispatch import ExpertRows
from anyformer.parts.experts.exchange import Compute, HoldsExperts
from anyformer.training.parallel.locals import hold_part


@dataclass(frozen=True)
class AllToAll:
    """`Exchange` of a group whose processes hold equally many experts each, in order: two all-to-alls, there and back.

    The gradient of the rows takes both ways once more.
    """

    group: Group

    def __call__(self, compute: Compute, rows_QD: Tensor, groups: ExpertRows) -> Tensor:
        counts_X, size = groups.counts, self.group.size
        # The sizes of both ways are needed on the host.
        sent = counts_X.view(size, -1)
        received = counted(sent, self.group)
        there, back = sent.sum(1).tolist(), received.sum(1).tolist()
        mine = exchanged(rows_QD[: sum(there)], there, back, self.group)
        # They come by process, and within it by expert: computed they are by expert alone.
        numbers = torch.arange(received.numel(), device=rows_QD.device) % received.shape[1]
        expert = numbers.repeat_interleave(received.flatten())
        order = expert.argsort(stable=True)
        own = ExpertRows(expert[order], received.sum(0).cumsum(0))
        computed = compute(mine[order], own)[order.argsort()]
        found = exchanged(computed, back, there, self.group)
        missing = len(rows_QD) - len(found)
        return torch.cat([found, found.new_zeros(missing, found.shape[1])]) if missing else found


def divide_experts(model: Transformer, mesh: DeviceMesh) -> list[nn.Parameter]:
    """Divide the experts of every layer over the dimension `expert` of a mesh, which may have a second one, `tensor`; gives
    their weights."""
    group = Group.of(mesh.get_group("expert"))
    found: list[nn.Parameter] = []
    for module in model.modules():
        if not isinstance(module, HoldsExperts):
            continue
        module.exchange = AllToAll(group)
        for name, weight in list(module._parameters.items()):
            if weight is None:
                continue
            placements: list[Placement] = [Shard(0)]
            own, over = weight.detach(), mesh["expert"]
            if isinstance(own, DTensor):
                placements, own, over = [Shard(0), *own.placements], own.to_local(), mesh
            part = own.chunk(group.size)[group.rank].clone()
            found.append(hold_part(module, name, part, over, placements, weight.requires_grad))
    return found
