"""XLM and FlauBERT: post-norm, learned positions, a norm after the embedding; layers stored kind by kind.

FlauBERT's files may ask for layers to be skipped at random in training (`layerdrop`); they always stand here.
"""

from __future__ import annotations

from typing import Any

from anyformer.describe import get
from anyformer.huggingface.config import Config
from anyformer.huggingface.families.bloom import either
from anyformer.huggingface.families.gpt2 import INERT
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.spelling import initialisation
from anyformer.model import Architecture, decoder_only, encoder_only
from anyformer.parts import (
    Attention,
    Bidirectional,
    Causal,
    Embedding,
    FeedForward,
    Head,
    LayerNorm,
    LearnedPosition,
    Normal,
    post_norm,
)
from anyformer.parts.heads import PROJECTIONS

LAYERS: Table = {
    "attention.query": "attentions.{i}.q_lin",
    "attention.key": "attentions.{i}.k_lin",
    "attention.value": "attentions.{i}.v_lin",
    "attention.output": "attentions.{i}.out_lin",
    "step_0_norm_after": "layer_norm1.{i}",
    "feedforward.up": "ffns.{i}.lin1",
    "feedforward.down": "ffns.{i}.lin2",
    "step_1_norm_after": "layer_norm2.{i}",
}


def read(config: Config) -> Architecture:
    width, dropout = config("emb_dim", 2048), config("dropout", 0.1)
    causal = config("causal", False)
    config.expect("is_encoder", True)
    config.expect("asm", False, why="logits by an adaptive softmax")
    config.expect("pre_norm", False, why="its class cannot run it")
    config.expect("share_inout_emb", True)
    if config("use_lang_emb", True):
        config.expect("n_langs", 1, why="a language's embedding is added where a call names it")
    norm = LayerNorm(eps=config("layer_norm_eps", 1e-12))
    attention = Attention(
        heads=config("n_heads", 16),
        bias=PROJECTIONS,
        mask=Causal() if causal else Bidirectional(),
        dropout=config("attention_dropout", 0.1),
    )
    feedforward = FeedForward(
        width=4 * width,
        activation="gelu" if config("gelu_activation", True) else "relu",
        gated=False,
        bias=("up", "down"),
    )
    make = decoder_only if causal else encoder_only
    return make(
        Embedding(vocab=either(config, "vocab_size", "n_words", default=30145)),
        width,
        [post_norm(norm, attention, feedforward, dropout=dropout)] * config("n_layers", 12),
        position=LearnedPosition(length=config("max_position_embeddings", 512)),
        input_norm=norm,
        dropout=dropout,
        head=Head(tied=config("tie_word_embeddings", True), bias=True),
        initialisation=initialisation(config, key="init_std").but(embedding=Normal(std=config("embed_init_std", 2048**-0.5))),
    )


def write(architecture: Architecture) -> dict[str, Any]:
    stack = next(iter(architecture.stacks))
    return {
        "causal": stack == "decoder",
        "vocab_size": get(architecture, "embedding.vocab"),
        "emb_dim": architecture.width,
        "n_layers": architecture.output_stack.depth,
        "n_heads": get(architecture, f"{stack}.layer.attention.heads"),
        "gelu_activation": get(architecture, f"{stack}.layer.feedforward.activation") == "gelu",
        "layer_norm_eps": get(architecture, f"{stack}.input_norm.eps"),
        "max_position_embeddings": get(architecture, f"{stack}.position.length"),
        "attention_dropout": get(architecture, f"{stack}.layer.attention.sublayer.dropout"),
        "dropout": get(architecture, f"{stack}.dropout"),
        "tie_word_embeddings": get(architecture, "head.tied"),
    }


def names(architecture: Architecture) -> Names:
    stack = next(iter(architecture.stacks))
    outside: Table = {
        "embedding": "transformer.embeddings",
        f"{stack}.position": "transformer.position_embeddings",
        f"{stack}.input_norm": "transformer.layer_norm_emb",
        "head": "pred_layer.proj",
    }
    return Names(outside, {stack: ("transformer.", LAYERS)})


OWN = (
    "bos_index", "eos_index", "id2lang", "lang2id", "lang_id", "langs", "lgs", "mask_index", "mask_token_id", "max_vocab",
    "min_count", "n_langs", "pad_index", "unk_index", "end_n_top", "start_n_top", "encoder_only", "layerdrop", "same_enc_dec",
    "sinusoidal_embeddings",
)  # fmt: skip
"""Ids, names and counts of languages and tokens; sinusoids, which fill the table of positions at the start only."""
TRAINING = (
    "amp", "bptt", "bucket_size", "clip_grad_norm", "fp16", "group_by_size", "lg_sampling_factor", "max_batch_size",
    "mlm_steps", "sample_alpha", "tokens_per_batch", "word_blank", "word_dropout", "word_keep", "word_mask",
    "word_mask_keep_rand", "word_pred", "word_rand", "word_shuffle",
)  # fmt: skip
"""How FlauBERT was trained, left in its files."""
FAMILIES = tuple(
    Family(
        model_type,
        read,
        write,
        names,
        default_class,
        inert=(*INERT, *OWN, *TRAINING),
        ignored=(r"(transformer\.)?position_ids",),
        base="transformer.",
    )
    for model_type, default_class in (("xlm", "XLMWithLMHeadModel"), ("flaubert", "FlaubertWithLMHeadModel"))
)
