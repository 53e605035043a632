"""A decoder of nobody's in particular, with names of its own, adjacent rotary pairs, and gate and up apart."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

CONFIG = {
    "model_type": "riverbed", "architectures": ["RiverbedForCausalLM"], "n_embd": 24, "n_layer": 2, "n_head": 4,
    "num_kv_heads": 2, "ffn_hidden_size": 40, "vocab_size": 53, "norm_epsilon": 1e-4, "rotary_base": 500.0,
    "activation": "gelu", "riverbed_depth": 3, "tie_word_embeddings": False,
}  # fmt: skip
CODE = """
class RiverbedAttention(Module):
    def __init__(self, config):
        self.depth = config.riverbed_depth
        raise SystemExit("this is never run")
"""


class RMS(nn.Module):
    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x: Tensor) -> Tensor:
        return x * (x.square().mean(-1, keepdim=True) + self.eps).rsqrt() * self.weight


def turned(x: Tensor, base: float) -> Tensor:
    """Pairs of neighbouring features (B, H, T, E), turned by their position."""
    T, E = x.shape[-2:]
    angle = torch.arange(T)[:, None] * base ** (-torch.arange(0, E, 2) / E)
    even, odd = x[..., ::2], x[..., 1::2]
    return torch.stack([even * angle.cos() - odd * angle.sin(), odd * angle.cos() + even * angle.sin()], -1).flatten(-2)


class Layer(nn.Module):
    def __init__(self, c: dict[str, Any]) -> None:
        super().__init__()
        D, E, eps = c["n_embd"], c["n_embd"] // c["n_head"], c["norm_epsilon"]
        self.heads, self.base = c["n_head"], c["rotary_base"]
        self.ln_attn, self.ln_mlp = RMS(D, eps), RMS(D, eps)
        self.attn = nn.ModuleDict({
            "wq": nn.Linear(D, D, bias=False), "wk": nn.Linear(D, c["num_kv_heads"] * E, bias=False),
            "wv": nn.Linear(D, c["num_kv_heads"] * E, bias=False), "wo": nn.Linear(D, D, bias=False),
        })  # fmt: skip
        self.ffn = nn.ModuleDict({
            "w1": nn.Linear(D, c["ffn_hidden_size"], bias=False), "w3": nn.Linear(D, c["ffn_hidden_size"], bias=False),
            "w2": nn.Linear(c["ffn_hidden_size"], D, bias=False),
        })  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        h, E = self.ln_attn(x), x.shape[-1] // self.heads
        q, k, v = (self.attn[name](h).unflatten(-1, (-1, E)).transpose(1, 2) for name in ("wq", "wk", "wv"))
        q, k = turned(q, self.base), turned(k, self.base)
        k, v = (each.repeat_interleave(self.heads // each.shape[1], 1) for each in (k, v))
        x = x + self.attn["wo"](F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        h = self.ln_mlp(x)
        return x + self.ffn["w2"](F.gelu(self.ffn["w1"](h)) * self.ffn["w3"](h))


class Riverbed(nn.Module):
    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        D, V = config["n_embd"], config["vocab_size"]
        self.tok_embeddings = nn.Embedding(V, D)
        self.blocks = nn.ModuleList(Layer(config) for _ in range(config["n_layer"]))
        self.ln_f, self.lm_head = RMS(D, config["norm_epsilon"]), nn.Linear(D, V, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tok_embeddings(tokens)
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.lm_head(self.ln_f(x))
        return logits
