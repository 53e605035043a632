"""UltraBERT: Llama's layers seen from both sides, most within a window, and a head of two dense layers."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL, SLIDING, window
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.words.encoder_heads import classes, head_of, tie_of_masked
from anyformer.huggingface.words.names import ATTENTION, FEEDFORWARD, NORMS
from anyformer.model import Architecture
from anyformer.parts import Bidirectional, Head, Transform, Window, pre_norm

_THETA = {"full": (FULL, 2_560_000.0), "local": (SLIDING, 10_000.0)}
_POOLS = {"cls": "first", "mean": "mean"}


def read(config: Config) -> Architecture:
    config.assume(vocab_size=32_000, hidden_size=4096, intermediate_size=11_008, num_hidden_layers=32, num_attention_heads=32)
    config.expect("classifier_pooling", *_POOLS)
    config.put(pad_token_id=0)
    back = {ours: theirs for theirs, ours in _POOLS.items()}
    pool = _POOLS[config("classifier_pooling", "cls", lambda target: back.get(target("head.pool"), "cls"))]
    norm, network = words.rms_norm(config), words.feedforward(config, bias=config("mlp_bias", False))
    heads = words.attention(config)
    tables = words.tables_by_type(config, dict(_THETA.values()))
    radius = config("sliding_window", 128, lambda target: window(target) - 1)
    masks = {"full": Bidirectional(), "local": Window(size=radius + 1, after=radius)}
    kinds = words.types(config, lambda i: SLIDING if (i + 1) % 3 else FULL)
    attends = {
        kind: heads.but(mask=masks[kind], rotary=words.from_table(tables[theirs], rotate_in="fp32"))
        for kind, (theirs, _) in _THETA.items()
    }
    layers = words.layered(lambda kind: pre_norm(norm, attends[kind], network), kinds)
    transform = Transform(activation="gelu_tanh", bias=False, inner=config("prediction_head_size", 768, "head.transform.inner"))
    masked = Head(tied=config("tie_word_embeddings", False, tie_of_masked), transform=transform)
    names = {
        "ForMaskedLM": masked,
        "ForSequenceClassification": classes(config, pool=pool),
        "ForTokenClassification": classes(config),
    }
    made = words.decoder(config, layers, norm, side="encoder")
    return made.but(head=head_of(config, "Ultrabert", names))


def names(architecture: Architecture) -> Names:
    head = architecture.head
    base = "ultrabert." if head else ""
    outside: Table = {"embedding": f"{base}embed_tokens", "encoder.final_norm": f"{base}norm"}
    if head is not None and head.outputs is None:
        dense = {"head.transform.inner": "head.linear1", "head.transform.dense": "head.linear2"}
        outside = {**outside, **dense, "head": "cls"}
    elif head is not None:
        outside = {**outside, "head": "classifier"}
    return Names(outside, {"encoder": (base + "layers.{i}.", {**ATTENTION, **FEEDFORWARD, **NORMS})})


FAMILIES = (
    Family(
        "ultrabert",
        read,
        names,
        "UltrabertForMaskedLM",
        inert=("classifier_dropout",),
        # As transformers calls them, who saves the names of published files.
        older_names={r"^model\.": "ultrabert.", r"^head\.decoder\.": "cls."},
    ),
)
