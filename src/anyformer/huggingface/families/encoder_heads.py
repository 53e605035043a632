"""What stands on an encoder: the head of a masked language model, classes of a row or of each token, or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.rules import Table
from anyformer.model import Architecture
from anyformer.parts import Head, Transform

MASKED = ("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.decoder")
"""A dense layer, its norm and the matrix."""
BIAS = "cls.predictions.bias"
POOLED = ("classifier.dense", "classifier.out_proj")
"""A dense layer of the first position, and the matrix of classes."""
TANH = Transform(activation="tanh")


def head_of(config: Config, heads: Mapping[str, Head]) -> Head | None:
    """The head of the configuration's class, by what its name ends in; the first where none is named, None for `Model`."""
    task = config.task or next(iter(heads))
    if task == "Model":
        return None
    if task not in heads:
        known = ", ".join(["Model", *heads])
        raise HuggingFaceError(
            f"{config.where}: {config.model_type} is not read with the head of a model {task}; known for it: {known}"
        )
    return heads[task]


def classes(config: Config, **fields: Any) -> Head:
    """A logit for each label of the configuration."""
    named, count = config("id2label", None), config("num_labels", None)
    return Head(outputs=len(named) if named else count or 2, bias=True, **fields)


def encoder_head(
    config: Config, transform: Transform, *, tied: bool = True, pooled: Transform = TANH, **more: Head
) -> Head | None:
    """`transform`, `tied`: of a masked language model (where nothing is said of the tie); `pooled`: before classes of a row.

    `more`: heads of further classes.
    """
    masked = Head(tied=config("tie_word_embeddings", tied), bias=True, transform=transform)
    heads = {
        "ForMaskedLM": masked,
        "ForPreTraining": masked,
        "ForSequenceClassification": classes(config, pool="first", transform=pooled),
        "ForTokenClassification": classes(config),
    }
    return head_of(config, heads | more)


def head_names(
    architecture: Architecture,
    masked: tuple[str, str, str] = MASKED,
    bias: str = BIAS,
    pooled: tuple[str, str] = POOLED,
) -> Table:
    """Where each part of the head is stored; the bias stands by itself while the matrix is the embedding's."""
    head = architecture.head
    if head is None:
        return {}
    if head.outputs is not None and head.pool is None:
        return {"head": "classifier"}
    if head.outputs is not None:
        return {"head.transform.dense": pooled[0], "head": pooled[1]}
    dense, norm, matrix = masked
    return {
        "head.transform.dense": dense,
        "head.transform.norm": norm,
        "head.weight": f"{matrix}.weight",
        "head.bias": bias if head.tied else f"{matrix}.bias",
    }


def write_head(architecture: Architecture, name: str, row: str = "ForSequenceClassification") -> dict[str, Any]:
    """The class, `name` and its task (`row`: of classes of a row), and what its head needs."""
    head = architecture.head
    if head is None:
        return {"architectures": [f"{name}Model"]}
    if head.outputs is None:
        return {"architectures": [f"{name}ForMaskedLM"], "tie_word_embeddings": head.tied}
    assert head.outputs != "features", "a head without logits is no class of theirs"
    labels = {i: f"LABEL_{i}" for i in range(head.outputs)}
    return {
        "architectures": [f"{name}{row if head.pool else 'ForTokenClassification'}"],
        "id2label": {str(i): label for i, label in labels.items()},
        "label2id": {label: i for i, label in labels.items()},
    }
