"""GPT-2's line: its names of weights, and the usual model around the attention of each layer."""

from __future__ import annotations

from collections.abc import Sequence

from anyformer.huggingface.config import Config
from anyformer.huggingface.rules import Names, Rows, Table, Then, To, Transposed
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.heads import ALL
from anyformer.huggingface.words.models import decoder, initialisation
from anyformer.huggingface.words.names import QKV, joined
from anyformer.huggingface.words.networks import four_times, plain
from anyformer.huggingface.words.norms import Norm
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    LearnedPosition,
    Projection,
    Score,
    Softmax,
    pre_norm,
)

OUTSIDE: Table = {
    "embedding": "transformer.wte",
    "decoder.position": "transformer.wpe",
    "decoder.final_norm": "transformer.ln_f",
    "head": "lm_head",
}
NORMS: Table = {"attention.norm_before": "ln_1", "feedforward.norm_before": "ln_2"}
TRANSPOSED: Table = {
    QKV: To("attn.c_attn", Then(Transposed(), Rows())),
    "attention.output": To("attn.c_proj", Transposed()),
    "feedforward.up": To("mlp.c_fc", Transposed()),
    "feedforward.down": To("mlp.c_proj", Transposed()),
}
BASE = "transformer."
MASKS = r"(transformer\.)?h\.\d+\.attn\.(attention\.)?(bias|masked_bias)"
INERT = (
    "_num_labels", "n_ctx", "n_special", "predict_special_tokens", "summary_activation", "summary_first_dropout",
    "summary_proj_to_labels", "summary_type", "summary_use_proj",
)  # fmt: skip
"""Keys of the line's files that configure other heads, or that older versions read."""


def gpt_names(*tables: Table, outside: Table = OUTSIDE) -> Names:
    """Names of a decoder of this line."""
    return Names(outside, {"decoder": ("transformer.h.{i}.", joined(*tables))})


def learned_decoder(
    config: Config, width: int, attentions: Sequence[Attention], gelu: str, norm: Norm, dropout: str = "resid_pdrop"
) -> Architecture:
    """The line's usual model around the attention of each layer; `gelu`: the activation where the key is absent."""
    norm, rate = norm.but(eps=config("layer_norm_epsilon", 1e-5)), config(dropout, 0.1)
    length = config.either("n_positions", "max_position_embeddings", default=1024)
    network = plain(config, gelu, "activation_function", size=None, width=four_times(config, width, "n_inner"))
    different = len(set(attentions)) > 1
    layers = [
        (f"layer_{i}" if different else "layer", pre_norm(norm, attention, network, dropout=rate))
        for i, attention in enumerate(attentions)
    ]
    return decoder(
        config,
        layers,
        norm,
        tied=True,
        vocab=50257,
        width="n_embd",
        length="n_positions",
        starts=initialisation(config).but(residual_scale="inverse_sqrt_2_depth"),
        around={"position": LearnedPosition(length=length), "dropout": config("embd_pdrop", 0.1)},
    )


def gpt_attention(config: Config, heads: int, kv_heads: int | None = None) -> Attention:
    """Attention with every bias, whose scores may be unscaled; `heads`: H where the key is absent."""
    scaled = config("scale_attn_weights", True, lambda target: target("attention.scale") != 1.0)
    count, dropout = config("n_head", heads), config("attn_pdrop", 0.1)
    return Attention(
        heads=count,
        kv_heads=kv_heads,
        project=Projection(bias=ALL),
        score=Score(scale=None if scaled else 1.0),
        weigh=Softmax(dropout=dropout),
    )


def gpt_attentions(config: Config, width: int, heads: int) -> list[Attention]:
    """The attention of each layer; a flag also divides its scores by the number of the layer."""
    plain, depth = gpt_attention(config, heads), config("n_layer")
    by_layer = config("scale_attn_by_inverse_layer_idx", False, _differ)
    return [plain.but(scale=plain.scale_of(width) / (i + 1)) if by_layer and i else plain for i in range(depth)]


def _differ(target: Target) -> bool:
    return len(set(target.each("attention.scale"))) > 1
