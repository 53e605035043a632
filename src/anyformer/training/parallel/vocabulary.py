"""A vocabulary whose rows the processes of a group divide: tables of embeddings, and the weights of the head.

No process ever has all logits of a position; `model.loss` computes losses from parts (Shoeybi et al. 2019, arXiv 1909.08053,
section 3).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard

from anyformer.describe import InputError
from anyformer.model.collectives import Group, added_up, entering
from anyformer.model.narrowed import divided_vocabulary
from anyformer.model.transformer import Transformer
from anyformer.parts.embedding.vocabulary import HoldsVocabulary, gained
from anyformer.training.parallel.locals import hold


@dataclass(frozen=True)
class InRows:
    """`Vocabulary` of which a process has as many rows as every other."""

    group: Group
    mesh: DeviceMesh

    def rows(self, table_VD: Tensor, tokens: Tensor) -> Tensor:
        if tokens.device.type == "cpu" and not 0 <= int(tokens.min()) <= int(tokens.max()) < len(table_VD) * self.group.size:
            raise InputError(
                f"tokens run from {int(tokens.min())} to {int(tokens.max())}, and the table has rows 0 to "
                f"{len(table_VD) * self.group.size - 1}: is this the model's tokenizer?"
            )
        own = tokens - self.group.rank * len(table_VD)
        mine = (own >= 0) & (own < len(table_VD))
        return added_up(F.embedding(own * mine, table_VD) * mine[..., None].to(table_VD.dtype), self.group)

    def logits(self, x_D: Tensor, table_VD: Tensor, bias_V: Tensor | None, gain_V: Tensor | None = None) -> Tensor:
        own = gained(F.linear(entering(x_D, self.group), table_VD, bias_V), gain_V)
        return DTensor.from_local(own, self.mesh, [Shard(own.dim() - 1)], run_check=False)


def divide_vocabulary(model: Transformer, mesh: DeviceMesh) -> None:
    """Divide a model's vocabulary over a mesh of one dimension, where it has equal parts."""
    group = Group.of(mesh.get_group())
    divided = divided_vocabulary(model.architecture, group.size)
    for path, module in model.named_modules():
        if divided and isinstance(module, HoldsVocabulary):
            module.vocabulary = InRows(group, mesh)
            for name, weight in list(module._parameters.items()):
                if weight is not None and f"{path}.{name}" in divided:
                    hold(module, name, weight, mesh, Shard(0))
