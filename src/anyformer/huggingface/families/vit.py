"""ViT, DeiT, ViT-MSN and I-JEPA: encoders of images cut into patches."""

from __future__ import annotations

from functools import partial

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.words.bert_line import encoder_names
from anyformer.huggingface.words.encoder_heads import classes, head_of
from anyformer.huggingface.words.vit_line import ATTENTION, NETWORK, image_attention, image_encoder, image_names
from anyformer.model import Architecture
from anyformer.parts import pre_norm


def read(name: str, class_tokens: int, eps: float, config: Config) -> Architecture:
    """Classes read the first position, or without a class token the mean; the class of the encoder alone has no head."""
    norm, network = words.layer_norm(config, eps), words.plain(config, width=3072)
    pool = "first" if class_tokens else "mean"
    head = head_of(config, name, {"ForImageClassification": classes(config, pool=pool)})
    block = pre_norm(norm, image_attention(config), network, dropout=config("hidden_dropout_prob", 0.0))
    return image_encoder(config, block, norm, patch=16, class_tokens=class_tokens, head=head)


def names(base: str, architecture: Architecture) -> Names:
    head: Table = {"head": "classifier"} if architecture.head else {}
    return encoder_names(architecture, base, image_names(architecture), head, ATTENTION, NETWORK)


def msn_names(architecture: Architecture) -> Names:
    """Transformers 5 saves the layers of a classifier without the prefix that its other weights have."""
    made = names("vit", architecture)
    return Names(made.outside, {stack: (prefix.removeprefix("vit."), layer) for stack, (prefix, layer) in made.layers.items()})


_IGNORED = (r"(.*\.)?pooler\..*", r"(.*\.)?embeddings\.mask_token")
_INERT = ("encoder_stride", "pooler_act", "pooler_output_size")
FAMILIES = (
    *(
        Family(
            base, partial(read, name, tokens, 1e-12), partial(names, base), f"{name}ForImageClassification", _INERT, _IGNORED,
            sees=True,
        )
        for base, name, tokens in (("vit", "ViT", 1), ("deit", "DeiT", 2), ("ijepa", "IJepa", 0))
    ),
    Family(
        "vit_msn", partial(read, "ViTMSN", 1, 1e-6), msn_names, "ViTMSNForImageClassification", ignored=_IGNORED, sees=True,
        older_names={r"^vit\.encoder\.": "encoder."},
    ),
)  # fmt: skip
