"""EuroBERT: Llama's blocks, seeing both ways."""

from __future__ import annotations

from typing import Any

from anyformer.describe import change
from anyformer.huggingface.config import Config
from anyformer.huggingface.families import old_llama as llama
from anyformer.huggingface.families.bert import encoder_names
from anyformer.huggingface.families.encoder_heads import head_of, write_head
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Names, Table
from anyformer.model import Architecture
from anyformer.parts import Bidirectional, Head

OUTSIDE: Table = {"embedding": "embed_tokens", "encoder.final_norm": "norm"}


def read(config: Config) -> Architecture:
    config.assume(rms_norm_eps=1e-5)
    made = llama.read(config)
    layers = change(made.output_stack, "layer.attention.mask", Bidirectional())
    masked = Head(tied=config("tie_word_embeddings", False), bias=config("mlp_bias", False))
    head = head_of(config, {"ForMaskedLM": masked})
    return made.but(encoder=layers, decoder=None, head=head)


def write(architecture: Architecture) -> dict[str, Any]:
    head = architecture.head
    turned = architecture.but(encoder=None, decoder=architecture.encoder, head=head or Head())
    return (
        llama.write(turned)
        | write_head(architecture, "EuroBert")
        | {
            # transformers makes its row of the table a special one, so it must be there.
            "pad_token_id": min(128_001, turned.outputs - 1),
        }
    )


def names(architecture: Architecture) -> Names:
    head: Table = {"head": "lm_head"} if architecture.head else {}
    tables = (llama.ATTENTION, llama.FEEDFORWARD, llama.NORMS)
    return encoder_names(architecture, "model", OUTSIDE, head, *tables, path="layers.{i}.")


FAMILIES = (
    Family(
        "eurobert", read, write, names, "EuroBertForMaskedLM",
        inert=("classifier_pooling", "mask_token_id"), ignored=(r".*rotary_emb\.inv_freq",),
    ),
)  # fmt: skip
