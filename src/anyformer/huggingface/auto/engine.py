"""A model as engines load it that put modules and attention of their own in: vLLM's backend for classes of transformers.

An engine fuses and splits what it recognises: linear modules, the look-up of tokens, a call of an attention function per layer.
It makes logits itself, from `lm_head.weight`, and reads weights by the names of its own modules.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from transformers.conversion_mapping import register_checkpoint_conversion_mapping
from transformers.core_model_loading import WeightRenaming

from anyformer.huggingface.auto.arguments import one_of
from anyformer.huggingface.auto.base import AnyformerPreTrainedModel
from anyformer.huggingface.auto.hidden_states import embedded_as
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer


class TableRows:
    """The look-up of tokens by a module of its own, which an engine may divide."""

    def __init__(self, table: nn.Module) -> None:
        self.owner = table

    def rows(self, table_VD: Tensor, tokens: Tensor) -> Tensor:
        found: Tensor = self.owner.get_submodule("table")(tokens)
        return found

    def logits(self, x_D: Tensor, table_VD: Tensor, bias_V: Tensor | None) -> Tensor:
        raise AssertionError("an engine makes logits itself")


class AnyformerEngineModel(AnyformerPreTrainedModel):
    """A decoder without its head, of a row of tokens of any texts side by side: (1, T) -> (1, T, D)."""

    _keys_to_ignore_on_load_unexpected = [r"^model\.(model\.)?mtp\."]  # noqa: RUF012 (transformers makes a set of it)

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


register_checkpoint_conversion_mapping(
    AnyformerEngineModel.__name__,
    [
        WeightRenaming(r"^model\.head\.", "lm_head."),
        WeightRenaming(r"^model\.embedding\.weight$", "model.model.embedding.table.weight"),
        WeightRenaming(r"^model\.(?!model\.)", "model.model."),
    ],
    overwrite=True,
)
