"""GPT (2018): GPT-2's names around post-norm layers, without a final norm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyformer.describe import get
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.families import gpt2
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.spelling import initialisation
from anyformer.model import Architecture, decoder_only
from anyformer.parts import Attention, Embedding, FeedForward, Head, LayerNorm, LearnedPosition, post_norm
from anyformer.parts.heads import PROJECTIONS

ACTIVATIONS: Mapping[str, str] = {"gelu": "gelu_tanh", "relu": "relu", "silu": "silu", "swish": "silu"}
"""Its class has its own table, in which `gelu` is the tanh form."""
OUTSIDE: Table = {
    "embedding": "transformer.tokens_embed",
    "decoder.position": "transformer.positions_embed",
    "head": "lm_head",
}
NORMS: Table = {"step_0_norm_after": "ln_1", "step_1_norm_after": "ln_2"}


def read(config: Config) -> Architecture:
    width, name = config("n_embd", 768), config("afn", "gelu")
    if name not in ACTIVATIONS:
        raise HuggingFaceError(f"{config.where}: afn = {name!r} is not known to openai-gpt, only {', '.join(ACTIVATIONS)}")
    block = post_norm(
        LayerNorm(eps=config("layer_norm_epsilon", 1e-5)),
        Attention(heads=config("n_head", 12), bias=PROJECTIONS, dropout=config("attn_pdrop", 0.1)),
        FeedForward(width=4 * width, activation=ACTIVATIONS[name], gated=False, bias=("up", "down")),
        dropout=config("resid_pdrop", 0.1),
    )
    return decoder_only(
        Embedding(vocab=config("vocab_size", 40478)),
        width,
        [block] * config("n_layer", 12),
        position=LearnedPosition(length=config("n_positions", 512)),
        dropout=config("embd_pdrop", 0.1),
        head=Head(tied=config("tie_word_embeddings", True)),
        initialisation=initialisation(config),
    )


def write(architecture: Architecture) -> dict[str, Any]:
    ours = get(architecture, "decoder.layer.feedforward.activation")
    return {
        "vocab_size": get(architecture, "embedding.vocab"),
        "n_embd": architecture.width,
        "n_layer": architecture.output_stack.depth,
        "n_head": get(architecture, "decoder.layer.attention.heads"),
        "n_positions": get(architecture, "decoder.position.length"),
        "afn": {known: name for name, known in ACTIVATIONS.items()}[ours],
        "layer_norm_epsilon": get(architecture, "decoder.layer.steps.0.norm_after.eps"),
        "embd_pdrop": get(architecture, "decoder.dropout"),
        "resid_pdrop": get(architecture, "decoder.layer.attention.dropout"),
        "attn_pdrop": get(architecture, "decoder.layer.attention.sublayer.dropout"),
        "tie_word_embeddings": get(architecture, "head.tied"),
    }


FAMILIES = (
    Family(
        "openai-gpt",
        read,
        write,
        lambda architecture: Names(OUTSIDE, {"decoder": (gpt2.LAYER, {**NORMS, **gpt2.TURNED})}),
        "OpenAIGPTLMHeadModel",
        inert=gpt2.INERT,
        ignored=(gpt2.MASKS,),
        base=gpt2.BASE,
    ),
)
