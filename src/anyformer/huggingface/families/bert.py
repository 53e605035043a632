"""BERT and its kin: encoders, or decoders, with learned positions, types of segments and a head of two layers."""

from __future__ import annotations

from functools import partial

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.words.bert_line import (
    ATTENTION,
    EMBEDDINGS,
    FEEDFORWARD,
    IGNORED,
    POST_NORMS,
    bert_head,
    bert_sublayers,
    encoder,
    encoder_names,
    learned_position,
)
from anyformer.huggingface.words.encoder_heads import SPANS, head_names
from anyformer.model import Architecture
from anyformer.parts import Transform, post_norm, pre_norm


def read(name: str, config: Config) -> Architecture:
    config.expect("use_task_id", False)
    side, mask = words.stack_and_mask(config, "is_decoder")
    norm, causal = words.layer_norm(config, 1e-12), "LMHeadModel" if name == "Bert" else "ForCausalLM"
    block = post_norm(norm, *bert_sublayers(config, mask=mask), dropout=config("hidden_dropout_prob", 0.1))
    head = bert_head(config, name, norm, causal=causal if side == "decoder" else "")
    return encoder(config, block, head, side=side, position=learned_position(config), input_norm=norm)


def read_megatron(config: Config) -> Architecture:
    norm = words.layer_norm(config, 1e-12)
    block = pre_norm(norm, *bert_sublayers(config), dropout=config("hidden_dropout_prob", 0.1))
    head = bert_head(config, "MegatronBert", norm)
    return encoder(config, block, head, position=learned_position(config), final_norm=norm)


def read_big(config: Config) -> Architecture:
    """BigBird with full attention: BERT whose queries, keys and values may have no bias, and embeddings a factor."""
    config.assume(vocab_size=50_358, hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072)
    config.assume(max_position_embeddings=4096, hidden_act="gelu_new")
    config.put(attention_type="original_full")
    if config("attention_type", "block_sparse") != "original_full":
        raise HuggingFaceError(
            f"{config.where}: blocks chosen at random are not known here; up to (5 + 2 num_random_blocks) block_size tokens "
            f"transformers attends to all, and so does attention_type = original_full"
        )
    if config.task == SPANS:
        raise HuggingFaceError(f"{config.where}: {config.class_name} has a network of its own before its head, not known here")
    norm, biased = words.layer_norm(config, 1e-12), config("use_bias", True, lambda target: "query" in target("attention.bias"))
    attention, network = bert_sublayers(config, bias=words.ALL if biased else ("output",))
    block = post_norm(norm, attention, network, dropout=config("hidden_dropout_prob", 0.1))
    head = bert_head(config, "BigBird", norm, pooled=Transform(activation=network.activation))
    made = encoder(config, block, head, position=learned_position(config), input_norm=norm)
    return made.but(embedding=made.embedding.but(scale=words.root_scale(config, False, "rescale_embeddings")))


def _big_names(architecture: Architecture) -> Names:
    return encoder_names(architecture, "bert", EMBEDDINGS, head_names(architecture), ATTENTION, FEEDFORWARD, POST_NORMS)


def _names(base: str, outside: Table, norms: Table, architecture: Architecture) -> Names:
    """Names of a model whose classes of a row read the pooler."""
    head = head_names(architecture, pooled=(f"{base}.pooler.dense", "classifier"))
    return encoder_names(architecture, base, {**EMBEDDINGS, **outside}, head, ATTENTION, FEEDFORWARD, norms)


_MEGATRON: Table = {"attention.norm_before": "attention.ln", "feedforward.norm_before": "ln"}
FAMILIES = (
    Family("bert", partial(read, "Bert"), partial(_names, "bert", {}, POST_NORMS), "BertForMaskedLM", ignored=IGNORED),
    Family(
        "ernie",
        partial(read, "Ernie"),
        partial(_names, "ernie", {}, POST_NORMS),
        "ErnieForMaskedLM",
        inert=("task_type_vocab_size",),
        ignored=IGNORED,
    ),
    Family(
        "megatron-bert",
        read_megatron,
        partial(_names, "bert", {"encoder.final_norm": "encoder.ln"}, _MEGATRON),
        "MegatronBertForMaskedLM",
        ignored=IGNORED,
    ),
    Family(
        "big_bird",
        read_big,
        _big_names,
        "BigBirdForMaskedLM",
        inert=("block_size", "num_random_blocks"),
        ignored=IGNORED,
    ),
)
