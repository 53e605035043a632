"""What formulas read of a model: sizes under the names of transformers' configurations, and counts of parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from transformers import CONFIG_MAPPING

from anyformer.costs import cost
from anyformer.huggingface.find import find_family
from anyformer.model import Architecture

SYNONYMS: Mapping[str, Sequence[str]] = {
    "width": ("hidden_size", "n_embd", "d_model"),
    "layers": ("num_hidden_layers", "n_layer", "num_layers"),
    "heads": ("num_attention_heads", "n_head", "num_heads"),
    "kv_heads": ("num_key_value_heads",),
    "head_dim": ("head_dim", "d_kv"),
    "ffn": ("intermediate_size", "n_inner", "d_ff"),
    "experts": ("n_routed_experts", "num_experts", "num_local_experts"),
    "chosen": ("num_experts_per_tok",),
    "expert_ffn": ("moe_intermediate_size",),
    "activation": ("hidden_act", "hidden_activation", "mlp_hidden_act", "feed_forward_proj", "activation_function"),
}
"""A size -> its keys in configurations."""
GATED = ("silu", "gelu_pytorch_tanh", "gated-gelu")
"""Activations of a configuration that stand for gated networks in the models here."""
BLOCKS = {"linear_attention": "mamba", "full_attention": "attention", "mlp": "mlp"}
"""Blocks of Nemotron-H."""
INHERITED = ("intermediate_size", "num_key_value_heads")
"""Keys for which formulas ask where a configuration leaves them to its class."""


@dataclass(frozen=True)
class ModelSizes:
    """A configuration, the parameters of its model, and the length of the rows that it is trained on.

    `matrices`: parameters that a token is multiplied by, a tied table among them; `table`: of the embedding of tokens;
    `positions`: of learnt positions.
    """

    config: Mapping[str, Any]
    length: int
    parameters: int
    matrices: int
    table: int
    positions: int

    def __getattr__(self, name: str) -> Any:
        keys = SYNONYMS.get(name, ())
        found = next((self.config[key] for key in keys if self.config.get(key) is not None), None)
        if not keys or (found is None and name not in ("kv_heads", "head_dim", "expert_ffn")):
            raise AttributeError(f"{self.config['model_type']} has no {name}")
        usual = {"kv_heads": "heads", "expert_ffn": "ffn"}
        return found if found is not None else self.width // self.heads if name == "head_dim" else getattr(self, usual[name])

    @property
    def model_type(self) -> str:
        return str(self.config["model_type"])

    @property
    def vocab(self) -> int:
        return int(self.config["vocab_size"])

    @property
    def tied(self) -> bool:
        return bool(self.config["tie_word_embeddings"])

    @property
    def gated(self) -> bool:
        """Whether feed-forward networks have a gate beside their first matrix."""
        return self.model_type == "gpt_oss" or self.activation in GATED

    @property
    def sparse(self) -> bool:
        """Whether it has experts."""
        return any(self.config.get(key) for key in SYNONYMS["experts"])

    @property
    def latent(self) -> bool:
        """Whether keys and values come from a latent vector."""
        return "kv_lora_rank" in self.config

    @property
    def kinds(self) -> list[str]:
        """What each layer is: `full_attention`, `sliding_attention`, `linear_attention`, or a block of a hybrid's pattern."""
        listed = self.config.get("layer_types") or [BLOCKS[kind] for kind in self.config.get("layers_block_type", ())]
        alike = "sliding_attention" if self.config.get("sliding_window") else "full_attention"
        return list(listed) if listed else [alike] * self.layers

    @property
    def window(self) -> int:
        """Keys that a query of a sliding layer sees, itself among them."""
        return min(self.length, self.config.get("sliding_window") or self.length)

    @property
    def of_mixture(self) -> list[bool]:
        """Whether each layer has experts."""
        return [self.sparse and i >= self.config.get("first_k_dense_replace", 0) for i in range(self.layers)]

    @property
    def shared_ffn(self) -> int:
        """Width of the experts that every token goes to, together."""
        counted = self.config.get("n_shared_experts", 0) * self.config.get("moe_intermediate_size", 0)
        return int(self.config.get("shared_expert_intermediate_size") or counted)


def sizes_of(architecture: Architecture, model_type: str, length: int) -> ModelSizes:
    """The sizes of an architecture, from the configuration that transformers has for it."""
    _, config = find_family(architecture, model_type)
    usual = CONFIG_MAPPING[model_type]()
    config = {**{key: getattr(usual, key) for key in INHERITED if hasattr(usual, key)}, **config}
    counted = cost(architecture, mode="prefill").params
    table, positions = (counted.by_component.get(name, 0) for name in ("embedding", "decoder.position"))
    idle = 0 if config["tie_word_embeddings"] else table
    return ModelSizes(
        {"model_type": model_type, **config}, length, counted.total, counted.active - idle - positions, table, positions
    )
