"""XLM and FlauBERT: post-norm, learned positions, a norm after the embedding; layers stored kind by kind.

Layers that FlauBERT drops at random in training (`layerdrop`) are never dropped here.
"""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.words.gpt_line import INERT
from anyformer.huggingface.words.names import projections
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    FeedForward,
    LearnedPosition,
    Normal,
    Projection,
    Softmax,
    post_norm,
)

_LAYERS: Table = {
    **projections("attentions.{i}.*_lin", "attentions.{i}.out_lin"),
    "step_0_norm_after": "layer_norm1.{i}",
    "feedforward.up": "ffns.{i}.lin1",
    "feedforward.down": "ffns.{i}.lin2",
    "step_1_norm_after": "layer_norm2.{i}",
}


def read(config: Config) -> Architecture:
    config.assume(emb_dim=2048, n_layers=12)
    config.put(pad_token_id=2)  # the class's own id, without which it cannot run
    side, mask = words.stack_and_mask(config, "causal")
    config.expect_all(is_encoder=True, share_inout_emb=True)
    config.expect("asm", False, why="logits by an adaptive softmax")
    config.expect("pre_norm", False, why="its class cannot run it")
    if config("use_lang_emb", True):
        config.expect("n_langs", 1, why="an embedding of the language is added where a call names one")
    norm, width, dropout = words.layer_norm(config, 1e-12), config("emb_dim"), config("dropout", 0.1)
    heads, rate = config("n_heads", 16), config("attention_dropout", 0.1)
    attention = Attention(heads=heads, mask=mask, project=Projection(bias=words.ALL), weigh=Softmax(dropout=rate))
    act = "gelu" if config("gelu_activation", True, lambda target: target("feedforward.activation") == "gelu") else "relu"
    network = FeedForward(width=4 * width, activation=act, gated=False, bias=("up", "down"))
    position = LearnedPosition(length=config("max_position_embeddings", 512))
    table = Normal(std=config("embed_init_std", 2048**-0.5))
    return words.decoder(
        config,
        words.repeated(config, post_norm(norm, attention, network, dropout=dropout), "n_layers"),
        None,
        tied=True,
        vocab=config.either("vocab_size", "n_words", default=30145),
        width="emb_dim",
        side=side,
        starts=words.initialisation(config, key="init_std").but(embedding=table),
        around={"position": position, "input_norm": norm, "dropout": dropout},
        bias=True,
    )


def names(architecture: Architecture) -> Names:
    stack = next(iter(architecture.stacks))
    outside: Table = {
        "embedding": "transformer.embeddings",
        f"{stack}.position": "transformer.position_embeddings",
        f"{stack}.input_norm": "transformer.layer_norm_emb",
        "head": "pred_layer.proj",
    }
    return Names(outside, {stack: ("transformer.", _LAYERS)})


_OWN = (
    "bos_index", "eos_index", "id2lang", "lang2id", "lang_id", "langs", "lgs", "mask_index", "mask_token_id", "max_vocab",
    "min_count", "n_langs", "pad_index", "unk_index", "end_n_top", "start_n_top", "encoder_only", "layerdrop", "same_enc_dec",
    "sinusoidal_embeddings",
)  # fmt: skip
"""Ids, names and counts of languages and tokens; sinusoids, which only initialise the table of positions."""
_TRAINING = (
    "amp", "bptt", "bucket_size", "clip_grad_norm", "fp16", "group_by_size", "lg_sampling_factor", "max_batch_size",
    "mlm_steps", "sample_alpha", "tokens_per_batch", "word_blank", "word_dropout", "word_keep", "word_mask",
    "word_mask_keep_rand", "word_pred", "word_rand", "word_shuffle",
)  # fmt: skip
"""Settings of FlauBERT's training in its files."""
FAMILIES = tuple(
    Family(
        model_type,
        read,
        names,
        default_class,
        inert=(*INERT, *_OWN, *_TRAINING),
        ignored=(r"(transformer\.)?position_ids",),
        base="transformer.",
    )
    for model_type, default_class in (("xlm", "XLMWithLMHeadModel"), ("flaubert", "FlaubertWithLMHeadModel"))
)
