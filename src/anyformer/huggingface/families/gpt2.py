"""GPT-2: LayerNorm pre-norm, learned positions, fused projections stored input first; and what its line took over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anyformer.describe import get
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Names, Rows, Table, Then, To, Transposed
from anyformer.huggingface.spelling import activation, initialisation, write_activation
from anyformer.model import Architecture, decoder_only
from anyformer.parts import Attention, Embedding, FeedForward, Head, LayerNorm, LearnedPosition, RMSNorm, pre_norm
from anyformer.parts.heads import PROJECTIONS

QKV = ("attention.query", "attention.key", "attention.value")
OUTSIDE: Table = {
    "embedding": "transformer.wte",
    "decoder.position": "transformer.wpe",
    "decoder.final_norm": "transformer.ln_f",
    "head": "lm_head",
}
NORMS: Table = {"attention.norm_before": "ln_1", "feedforward.norm_before": "ln_2"}
TURNED: Table = {
    QKV: To("attn.c_attn", Then(Transposed(), Rows())),
    "attention.output": To("attn.c_proj", Transposed()),
    "feedforward.up": To("mlp.c_fc", Transposed()),
    "feedforward.down": To("mlp.c_proj", Transposed()),
}
LAYER = "transformer.h.{i}."
BASE = "transformer."
MASKS = r"(transformer\.)?h\.\d+\.attn\.(attention\.)?(bias|masked_bias)"
INERT = (
    "_num_labels", "n_ctx", "n_special", "predict_special_tokens", "summary_activation", "summary_first_dropout",
    "summary_proj_to_labels", "summary_type", "summary_use_proj",
)  # fmt: skip
"""Keys of the line's files about other heads and other years."""

ROUNDING = ("reorder_and_upcast_attn",)
"""In what order and type scores are scaled."""
NEMO = ("apply_query_key_layer_scaling", "normalize_attention_scores")
"""Left in GPT-SW3's files by what trained it; nobody reads them."""


def first_layer(architecture: Architecture) -> str:
    """The path of the first layer's variant."""
    return f"decoder.{architecture.output_stack.layers[0]}"


def write_gelu(name: str) -> str:
    """Their name of an activation, where the line's own spelling of the tanh form is another one to the last bit."""
    return "gelu_new" if name == "gelu_tanh" else write_activation(name)


def learned_decoder(
    config: Config, width: int, attentions: Sequence[Attention], gelu: str, norm: LayerNorm | RMSNorm
) -> Architecture:
    """The line's common shape around each layer's attention."""
    norm = norm.but(eps=config("layer_norm_epsilon", 1e-5))
    feedforward = FeedForward(
        width=config("n_inner", None) or 4 * width,
        activation=activation(config("activation_function", gelu)),
        gated=False,
        bias=("up", "down"),
    )
    dropout = config("resid_pdrop", 0.1)
    return decoder_only(
        Embedding(vocab=config("vocab_size", 50257)),
        width,
        [pre_norm(norm, attention, feedforward, dropout=dropout) for attention in attentions],
        position=LearnedPosition(length=config("n_positions", 1024)),
        dropout=config("embd_pdrop", 0.1),
        final_norm=norm,
        head=Head(tied=config("tie_word_embeddings", True)),
        initialisation=initialisation(config).but(residual_scale=(2 * len(attentions)) ** -0.5),
    )


def layerwise(config: Config, width: int, heads: int, depth: int) -> list[Attention]:
    """The attention of each layer, which may divide its scores by the layer's number too."""
    scaled, by_layer = config("scale_attn_weights", True), config("scale_attn_by_inverse_layer_idx", False)
    plain = Attention(heads=heads, bias=PROJECTIONS, scale=None if scaled else 1.0, dropout=config("attn_pdrop", 0.1))
    return [plain.but(scale=plain.scale_of(width) / (i + 1)) if by_layer and i else plain for i in range(depth)]


def read(config: Config) -> Architecture:
    width = config("n_embd", 768)
    attentions = layerwise(config, width, config("n_head", 12), config("n_layer", 12))
    return learned_decoder(config, width, attentions, "gelu_new", LayerNorm())


def write(architecture: Architecture) -> dict[str, Any]:
    attention: Attention = get(architecture, f"{first_layer(architecture)}.attention.sublayer")
    return common(architecture) | {
        "n_positions": get(architecture, "decoder.position.length"),
        "n_inner": get(architecture, f"{first_layer(architecture)}.feedforward.width"),
        "activation_function": write_gelu(get(architecture, f"{first_layer(architecture)}.feedforward.activation")),
        "attn_pdrop": attention.dropout,
        "scale_attn_weights": attention.scale != 1.0,
        "scale_attn_by_inverse_layer_idx": len(architecture.output_stack.variants) > 1,
    }


def common(architecture: Architecture) -> dict[str, Any]:
    """What the models whose keys start with `n_` write alike."""
    layer = first_layer(architecture)
    return {
        "vocab_size": get(architecture, "embedding.vocab"),
        "n_embd": architecture.width,
        "n_layer": architecture.output_stack.depth,
        "n_head": get(architecture, f"{layer}.attention.heads"),
        "layer_norm_epsilon": get(architecture, "decoder.final_norm.eps"),
        "embd_pdrop": get(architecture, "decoder.dropout"),
        "resid_pdrop": get(architecture, f"{layer}.attention.dropout"),
        "tie_word_embeddings": get(architecture, "head.tied"),
    }


FAMILIES = (
    Family(
        "gpt2",
        read,
        write,
        lambda architecture: Names(OUTSIDE, {"decoder": (LAYER, {**NORMS, **TURNED})}),
        "GPT2LMHeadModel",
        inert=(*INERT, *ROUNDING, *NEMO),
        ignored=(MASKS,),
        base=BASE,
    ),
)
