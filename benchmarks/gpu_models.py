"""The models of `benchmarks.gpu`, and the same models in transformers and litgpt with the same training step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.catalogue.gpt import gpt2
from anyformer.catalogue.llama import llama
from anyformer.catalogue.mistral import mixtral
from anyformer.model import Architecture

Made = tuple[nn.Module, Callable[[Tensor], Tensor]]
"""A module, and its logits of tokens."""


@dataclass(frozen=True)
class Model:
    """Sizes of one model, and the batch and length it is trained at."""

    kind: Literal["gpt2", "llama", "mixtral"]
    width: int
    depth: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    batch: int
    length: int

    def architecture(self) -> Architecture:
        """Our description of it, without dropout."""
        made = {"width": self.width, "depth": self.depth, "heads": self.heads, "vocab": self.vocab}
        match self.kind:
            case "gpt2":
                return gpt2(**made, length=self.length, dropout=0.0)
            case "llama":
                return llama(**made, kv_heads=self.kv_heads, ffn=self.ffn, tied=True)
            case "mixtral":
                return mixtral(**made, kv_heads=self.kv_heads, expert=self.ffn)

    @property
    def tiny(self) -> Model:
        """The same kind at a size for a rehearsal."""
        return replace(self, width=64, depth=2, heads=4, kv_heads=2, ffn=128, vocab=256, batch=2, length=256)

    def data(self) -> dict[str, Any]:
        return asdict(self)


MODELS: Mapping[str, Model] = {
    "gpt2": Model("gpt2", 768, 12, 12, 12, 3072, 50_257, batch=32, length=1024),
    "llama-1.2b": Model("llama", 2048, 16, 32, 8, 8192, 128_256, batch=4, length=4096),
    "experts": Model("mixtral", 2048, 16, 16, 8, 4096, 32_000, batch=2, length=4096),
}
"""124 M parameters, 1.24 B, and 3.5 B of which 1.1 B are active."""


def transformers(model: Model) -> Made:
    """transformers: the class of its own, with torch's fused attention and no cache."""
    from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig, MixtralConfig

    shared = {"vocab_size": model.vocab, "use_cache": False, "attn_implementation": "sdpa"}
    if model.kind == "gpt2":
        config: Any = GPT2Config(
            n_embd=model.width, n_layer=model.depth, n_head=model.heads, n_positions=model.length,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, **shared,
        )  # fmt: skip
    else:
        made = LlamaConfig if model.kind == "llama" else MixtralConfig
        config = made(
            hidden_size=model.width, intermediate_size=model.ffn, num_hidden_layers=model.depth,
            num_attention_heads=model.heads, num_key_value_heads=model.kv_heads, max_position_embeddings=model.length,
            tie_word_embeddings=model.kind == "llama", **shared,
        )  # fmt: skip
    built = AutoModelForCausalLM.from_config(config)
    return built, lambda tokens: built(input_ids=tokens).logits  # type: ignore[no-any-return]


def litgpt(model: Model) -> Made:
    """litgpt: one class for all, with a joined projection of queries, keys and values."""
    from litgpt.config import Config
    from litgpt.model import GPT

    shared = {
        "block_size": model.length, "vocab_size": model.vocab, "padded_vocab_size": model.vocab, "n_layer": model.depth,
        "n_head": model.heads, "n_embd": model.width, "parallel_residual": False, "intermediate_size": model.ffn,
    }  # fmt: skip
    if model.kind == "gpt2":
        # It has no table of learned positions: rotary ones stand in, which cost a little more.
        config = Config(**shared, bias=True, norm_class_name="LayerNorm", mlp_class_name="GptNeoxMLP", rotary_percentage=1.0)
    else:
        experts = {"n_expert": 8, "n_expert_per_token": 2} if model.kind == "mixtral" else {}
        config = Config(
            **shared, **experts, bias=False, norm_class_name="RMSNorm", rotary_percentage=1.0, n_query_groups=model.kv_heads,
            mlp_class_name="LLaMAMoE" if experts else "LLaMAMLP",
        )  # fmt: skip
    built = GPT(config)
    built.apply(built._init_weights)
    if model.kind != "mixtral":
        built.transformer.wte.weight = built.lm_head.weight
    return built, built


Make = Callable[[Model], Made]


class PeerStep:
    """One training step in bf16 with weights in fp32, on one batch of made-up tokens: the step of `anyformer.training`."""

    def __init__(self, make: Make, model: Model, compiled: bool, device: torch.device) -> None:
        torch.manual_seed(0)
        with device:
            self.model, logits = make(model)
            tokens = torch.randint(model.vocab, (model.batch, model.length + 1))
        self.model.train()
        self.device, inputs, targets = device, tokens[:, :-1].contiguous(), tokens[:, 1:].reshape(-1)
        weights = self.model.parameters()
        self.optimiser = torch.optim.AdamW(weights, lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)

        def loss() -> Tensor:
            return F.cross_entropy(logits(inputs).flatten(0, 1).float(), targets)

        self._loss = torch.compile(loss) if compiled else loss

    def update(self) -> None:
        """Forward, backward, clipping and the optimiser's update."""
        with torch.autocast(self.device.type, dtype=torch.bfloat16):
            loss = self._loss()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)


PEERS: Mapping[str, Make] = {"transformers": transformers, "litgpt": litgpt}
