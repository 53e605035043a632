"""Context parallelism: each process computes some positions of every row, and attention gathers keys and values of all

(Grattafiori et al. 2024, arXiv 2407.21783, section 3.3.2). A sublayer that cannot (`Sublayer.gathers`) every process computes
whole. The gradient of each operation is its own in every process, so that gradients of weights are added over the group, as
those of other rows are; each process computes the whole loss, so that each begins its backward pass with a share of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, Shard

from anyformer.model.collectives import Group, gathered, numbers, own
from anyformer.model.divided import is_divided, local
from anyformer.model.transformer import Transformer
from anyformer.parts.call.context import Context
from anyformer.parts.call.state import State
from anyformer.parts.embedding.vocabulary import WHOLE_VOCABULARY, Vocabulary
from anyformer.parts.layers.branch_module import BranchModule
from anyformer.parts.layers.stack_module import StackModule
from anyformer.training.parallel.adapted import divide_dropouts


@dataclass(frozen=True)
class SpreadPositions:
    """`Spread` of a stream of whose positions each process of a group has some."""

    group: Group

    def enter(self, x: Tensor, context: Context) -> tuple[Tensor, Context]:
        length = x.shape[1]
        gather = partial(gathered, length=length, group=self.group)
        return own(x, self.group), context.of_positions(numbers(length, self.group, x.device), gather)

    def leave(self, x: Tensor, length: int) -> Tensor:
        return gathered(x, length, self.group)

    def of(self, length: int) -> int:
        return -(-length // self.group.size)


@dataclass(frozen=True)
class OfAll:
    """`Crossing` of a branch whose sublayer every process computes for all positions."""

    group: Group

    def __call__(self, sublayer: nn.Module, x: Tensor, context: Context, state: State | None = None) -> Tensor:
        return own(sublayer(context.gathered(x), context.of_all_positions(), None), self.group)


@dataclass(frozen=True)
class ByPositions:
    """`Vocabulary` whose logits each process computes of its positions, and of those the part that `within` computes."""

    group: Group
    mesh: DeviceMesh
    """Over `context` and, where `within` divides tokens, `tensor`."""
    within: Vocabulary

    def rows(self, table_VD: Tensor, tokens: Tensor) -> Tensor:
        return self.within.rows(table_VD, tokens)

    def logits(self, x_D: Tensor, table_VD: Tensor, bias_V: Tensor | None, gain_V: Tensor | None = None) -> Tensor:
        if x_D.dim() != 3:
            return self.within.logits(x_D, table_VD, bias_V, gain_V)
        found = self.within.logits(own(x_D, self.group), table_VD, bias_V, gain_V)
        placements: list[Placement] = [Shard(1), Shard(2)] if is_divided(found) else [Shard(1)]
        shape = torch.Size((*x_D.shape[:2], found.shape[-1]))
        return DTensor.from_local(
            local(found), self.mesh, placements, run_check=False, shape=shape, stride=(shape[1] * shape[2], shape[2], 1)
        )


def divide_positions(model: Transformer, mesh: DeviceMesh) -> None:
    """Divide the positions of a model's stacks over a mesh of one dimension, `context`."""
    group, width = Group.of(mesh.get_group()), model.architecture.width
    for place in model.architecture.stacks:
        module = model.get_submodule(place)
        assert isinstance(module, StackModule)
        module.spread = SpreadPositions(group)
        for branch in module.layers.modules():
            if not isinstance(branch, BranchModule):
                continue
            if branch.branch.sublayer.gathers(width) is None:
                branch.crossing = OfAll(group)
            else:
                divide_dropouts(branch.sublayer, branch.branch.sublayer, width, group)


def divide_logits(model: Transformer, mesh: DeviceMesh) -> None:
    """Divide the positions of a model's logits over the dimension `context` of a mesh; its vocabulary may be divided already,
    over the dimension `tensor`."""
    head = model.head
    if head is not None:
        over = mesh["context"] if head.vocabulary is WHOLE_VOCABULARY else mesh["context", "tensor"]
        head.vocabulary = ByPositions(Group.of(mesh.get_group("context")), over, head.vocabulary)
