"""OPT (and Galactica): learned positions from row 2 on; the 350M shape is post-norm, with narrow embeddings."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.fairseq import ATTENTION, FIRST, NORMS, PLAIN
from anyformer.huggingface.words.names import joined
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    InputProjection,
    LayerNorm,
    LearnedPosition,
    Projection,
    Softmax,
    Transform,
    post_norm,
    pre_norm,
)

_OUTSIDE: Table = {
    "embedding": "model.decoder.embed_tokens",
    "decoder.position": "model.decoder.embed_positions",
    "decoder.input_projection": "model.decoder.project_in",
    "decoder.final_norm": "model.decoder.final_layer_norm",
    "head.transform.dense": "model.decoder.project_out",
    "head": "lm_head",
}


def read(config: Config) -> Architecture:
    config.assume(hidden_size=768, num_hidden_layers=12)
    config.expect_all(layerdrop=0.0, scale_embeddings=False, learned_embeddings=True)
    bias, affine = config("enable_bias", True), config("layer_norm_elementwise_affine", True, _affine)
    first = config("do_layer_norm_before", True, lambda target: target("steps.0.norm_after") is None)
    removed = config("_remove_final_layer_norm", False, lambda target: first and target("stack.final_norm") is None)
    norm = LayerNorm() if affine else LayerNorm(gain="none", bias=False)
    heads, rate = config("num_attention_heads", 12), config("attention_dropout", 0.0)
    attention = Attention(heads=heads, project=Projection(bias=words.ALL if bias else ()), weigh=Softmax(dropout=rate))
    network = words.plain(config, "relu", "activation_function", size="ffn_dim", width=3072, bias=bias)
    wire, rate = pre_norm if first else post_norm, config("dropout", 0.1, "attention.dropout")
    width = config("hidden_size")
    narrow = config("word_embed_proj_dim", None, lambda target: target.architecture.table_width) or width
    length = config("max_position_embeddings", 2048)
    return words.decoder(
        config,
        words.repeated(config, wire(norm, attention, network, dropout=rate)),
        norm if first and not removed else None,
        tied=True,
        vocab=50272,
        embedding_width=None if narrow == width else narrow,
        around={
            "input_projection": None if narrow == width else InputProjection(place="first", bias=False),
            "position": LearnedPosition(length=length, offset=FIRST),
        },
        starts=words.initialisation(config, key="init_std"),
        transform=None if narrow == width else Transform(bias=False),
    )


def _affine(target: Target) -> bool:
    """Whether the layers' norms have weights."""
    norm = target("steps.0.norm_after") or target("attention.norm_before")
    return bool(norm is not None and norm.plain().get("bias", True))


_LAYERS = joined(ATTENTION, PLAIN, NORMS)
_NAMES = Names(_OUTSIDE, {"decoder": ("model.decoder.layers.{i}.", _LAYERS)})
FAMILIES = (Family("opt", read, _NAMES, "OPTForCausalLM", inert=("activation_dropout",), base="model."),)
