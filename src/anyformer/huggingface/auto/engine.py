"""A model as engines load it that put modules and attention of their own in: vLLM's backend for classes of transformers.

An engine fuses and splits what it recognises: linear modules, the look-up of tokens, a call of an attention function per layer.
It makes logits itself, from `lm_head.weight`, and reads weights by the names of its own modules.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch.distributed as dist
from torch import Tensor, nn
from transformers.conversion_mapping import register_checkpoint_conversion_mapping
from transformers.core_model_loading import WeightRenaming

from anyformer.describe import InputError
from anyformer.huggingface.auto.arguments import one_of
from anyformer.huggingface.auto.base import AnyformerPreTrainedModel
from anyformer.huggingface.auto.configuration import AnyformerConfig
from anyformer.huggingface.auto.hidden_states import embedded_as
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.parts.sublayer import Sublayer


class TableRows:
    """The look-up of tokens by a module of its own, which an engine may divide."""

    def __init__(self, table: nn.Module) -> None:
        self.owner = table

    def rows(self, table_VD: Tensor, tokens: Tensor) -> Tensor:
        found: Tensor = self.owner.get_submodule("table")(tokens)
        return found

    def logits(self, x_D: Tensor, table_VD: Tensor, bias_V: Tensor | None, gain_V: Tensor | None = None) -> Tensor:
        raise AssertionError("an engine makes logits itself")


class AnyformerEngineModel(AnyformerPreTrainedModel):
    """A decoder without its head, of a row of tokens of any texts side by side: (1, T) -> (1, T, D)."""

    _keys_to_ignore_on_load_unexpected = [r"^model\.(model\.)?mtp\."]  # noqa: RUF012 (transformers makes a set of it)

    def __init__(self, config: AnyformerConfig) -> None:
        super().__init__(config)
        processes = dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1
        if processes > 1 and (reasons := undivided(self.model, processes)):
            raise InputError(
                f"{processes} processes cannot divide this model: {'; '.join(reasons)}. Let one process hold it "
                f"(vLLM: --tensor-parallel-size 1)"
            )
        self._tp_plan = division(self.model)

    def built(self, architecture: Architecture) -> Transformer:
        model = Transformer(architecture.but(head=None, mtp=None))
        embedding = model.embedding
        table = embedding.get_parameter("weight")
        embedding.add_module("table", nn.Embedding(table.shape[0], table.shape[1], _weight=table))
        embedding.register_parameter("weight", None)
        embedding.vocabulary = TableRows(embedding)
        known = (nn.Linear, nn.Embedding, nn.ModuleList, nn.ModuleDict, nn.Sequential)
        for module in [each for each in model.modules() if not list(each.children()) and not isinstance(each, known)]:
            # An engine takes a leaf of a class for whatever the first one of it computes; one with a child it leaves alone.
            module.add_module("kept", nn.Identity())
        return model

    def initialize_weights(self) -> None:
        """Nothing: an engine fills every weight from the files."""

    def forward(
        self,
        input_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        position_ids: Tensor | None = None,
        use_cache: bool | None = None,
        return_dict: bool | None = None,
        **more: Any,
    ) -> tuple[Tensor]:
        """Features (1, T, D) at positions (1, T); which of them see one another the engine knows."""
        self.refuse(more)
        tokens, embeds = one_of(input_ids, inputs_embeds)
        with embedded_as(self.model, embeds):
            return (self.model.features(tokens, positions=position_ids),)


def division(model: Transformer) -> dict[str, str]:
    """Linear module -> how an engine divides it among processes: by its outputs (`colwise`) or its inputs (`rowwise`).

    Of attention over heads, and of plain networks over whose features nothing runs; the rest every process computes whole.
    """
    found: dict[str, str] = {}
    for name, sublayer in _sublayers(model):
        network = sublayer.layout(model.architecture.width).network
        plain = network is not None and network.experts is None and not network.normed
        if not plain and sublayer.outside(model.architecture.width) is None:
            continue
        divided = _divided(model, name)
        if all(isinstance(model.get_submodule(owner), nn.Linear) for owner in divided):
            found |= {f"model.{owner}": "colwise" if role == "column" else "rowwise" for owner, role in divided.items()}
    return found


def undivided(model: Transformer, processes: int) -> list[str]:
    """Why so many processes cannot have some of the heads of every attention each."""
    reasons: list[str] = []
    for name, sublayer in _sublayers(model):
        told = sublayer.outside(model.architecture.width)
        if told is None:
            continue
        reasons += [f"{word} needs all heads" for word in told.whole]
        reasons += [
            f"{owner.rpartition('.')[2]} is divided otherwise than a matrix"
            for owner in _divided(model, name)
            if not isinstance(model.get_submodule(owner), nn.Linear)
        ]
        if told.heads % processes or told.kv_heads % processes:
            reasons.append(f"{told.heads} heads and {told.kv_heads} of keys do not divide by {processes}")
    return list(dict.fromkeys(reasons))


def _sublayers(model: Transformer) -> Iterator[tuple[str, Sublayer]]:
    """Every sublayer of the layers, under the name of its module."""
    stack = model.architecture.output_stack
    for i, variant in enumerate(stack.layers):
        for step in stack.variants[variant].of_layer(i, stack.depth).steps:
            for branch, described in step.branches.items():
                yield f"{model.output}.layers.{i}.{branch}.sublayer", described.sublayer


def _divided(model: Transformer, sublayer: str) -> dict[str, str]:
    """The owners of a sublayer's weights that processes divide, with the role of the weight."""
    within = {name: weight for name, weight in model.declared.items() if name.startswith(f"{sublayer}.")}
    return {name.rpartition(".")[0]: weight.role for name, weight in within.items() if weight.role in ("column", "row")}


register_checkpoint_conversion_mapping(
    AnyformerEngineModel.__name__,
    [
        WeightRenaming(r"^model\.head\.", "lm_head."),
        WeightRenaming(r"^model\.embedding\.weight$", "model.model.embedding.table.weight"),
        WeightRenaming(r"^model\.(?!model\.)", "model.model."),
    ],
    overwrite=True,
)
