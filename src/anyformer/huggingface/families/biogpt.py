"""BioGPT: OPT's layers on scaled embeddings, with learned positions from row 2 on."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Table
from anyformer.huggingface.words.fairseq import ATTENTION, FIRST, NORMS, PLAIN
from anyformer.huggingface.words.names import decoder_names
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    LayerNorm,
    LearnedPosition,
    Projection,
    Softmax,
    pre_norm,
)


def read(config: Config) -> Architecture:
    config.assume(hidden_size=1024, num_hidden_layers=24)
    config.expect("layerdrop", 0.0)
    rate, dropout, norm = config("attention_probs_dropout_prob", 0.1), config("hidden_dropout_prob", 0.1), LayerNorm()
    attention = Attention(
        heads=config("num_attention_heads", 16), project=Projection(bias=words.ALL), weigh=Softmax(dropout=rate)
    )
    network = words.plain(config, width=4096, dropout=config("activation_dropout", 0.0))
    layers = words.repeated(config, pre_norm(norm, attention, network, dropout=dropout))
    position = LearnedPosition(length=config("max_position_embeddings", 1024), offset=FIRST)
    scale, around = words.root_scale(config, True), {"position": position, "dropout": dropout}
    return words.decoder(config, layers, norm, tied=True, vocab=42384, embedding_scale=scale, around=around)


_OUTSIDE: Table = {
    "embedding": "biogpt.embed_tokens",
    "decoder.position": "biogpt.embed_positions",
    "decoder.final_norm": "biogpt.layer_norm",
    "head": "output_projection",
}
_NAMES = decoder_names(ATTENTION, PLAIN, NORMS, outside=_OUTSIDE, prefix="biogpt.layers.{i}.")
FAMILIES = (
    Family(
        "biogpt",
        read,
        _NAMES,
        "BioGptForCausalLM",
        # Its class builds every norm with PyTorch's eps and never reads this key.
        inert=("layer_norm_eps",),
        ignored=(r"output_projection\.weight",),
        base="biogpt.",
    ),
)
