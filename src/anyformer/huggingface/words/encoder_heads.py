"""Heads of encoders: of a masked language model, for classes of a row or of each token, or none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyformer.huggingface.config import Config, shown
from anyformer.huggingface.errors import HuggingFaceError, MismatchError
from anyformer.huggingface.rules import Table
from anyformer.huggingface.target import Target, nowhere
from anyformer.model import Architecture
from anyformer.parts import Head, Transform

MASKED = ("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.decoder")
"""Names of the dense layer, its norm and the matrix."""
BIAS = "cls.predictions.bias"
POOLED = ("classifier.dense", "classifier.out_proj")
"""Names of the dense layer of the first position, and the matrix of classes."""
TOKENS, SPANS = "ForTokenClassification", "ForQuestionAnswering"
TANH = Transform(activation="tanh")


def head_of(config: Config, name: str, heads: Mapping[str, Head]) -> Head | None:
    """The head of the configuration's class, by the end of its name; the first without a class, None for `Model`.

    `name`: the beginning of the names of all classes of the model type.
    """
    if config.target is not None:
        config.put(architectures=[name + _task(config.target.architecture.head, heads)])
    task = config.task or next(iter(heads))
    if task == "Model":
        return None
    if task == SPANS and heads.get(TOKENS) is not None:
        return spans(config, heads[TOKENS])
    if task not in heads:
        known = ", ".join(["Model", *heads])
        decodes = config("is_decoder", False, nowhere)
        causal = f" and is_decoder = {shown(decodes)}" if decodes or task == "ForCausalLM" else ""
        raise HuggingFaceError(
            f"{config.where}: {config.model_type} with the head of a class {task}{causal} is not known here, only {known}"
        )
    return heads[task]


def spans(config: Config, of_tokens: Head) -> Head:
    """A head of spans of answers, which has that of classes of each token: the logits of a start and of an end."""
    if of_tokens.outputs != 2:
        raise HuggingFaceError(
            f"{config.where}: {of_tokens.outputs} labels, and the head of {config.class_name} has 2: a start and an end"
        )
    return of_tokens


def _task(head: Head | None, heads: Mapping[str, Head]) -> str:
    """The first of the classes whose head has the same parts."""
    if head is None:
        return "Model"
    for task, candidate in heads.items():
        if _parts(candidate) == _parts(head):
            return task
    raise MismatchError(f"the head is that of none of the classes {', '.join(heads)}")


def _parts(head: Head) -> tuple[bool, ...]:
    return head.outputs is None, head.pool is None, head.transform is None


def classes(config: Config, **fields: Any) -> Head:
    """A head with a logit per label of the configuration, and a bias unless `fields` say otherwise."""
    if config.target is not None:
        count = config.target.get("head.outputs")
        if count == "features":
            raise MismatchError("no class of transformers has a head that gives features")
        labels = {str(i): f"LABEL_{i}" for i in range(count or 0)}
        config.put(**({"id2label": labels, "label2id": {label: int(i) for i, label in labels.items()}} if labels else {}))
    named, count = config("id2label", None), config("num_labels", None)
    if named and config.written.get("num_labels", len(named)) not in (None, len(named)):
        raise HuggingFaceError(f"{config.where}: num_labels = {count}, and id2label names {len(named)} classes")
    return Head(**{"outputs": len(named) if named else count or 2, "bias": True, **fields})


def encoder_head(
    config: Config,
    name: str,
    transform: Transform,
    *,
    tied: bool = True,
    pooled: Transform = TANH,
    causal: str = "",
    **more: Head,
) -> Head | None:
    """The head of the configuration's class.

    `name`: the beginning of the names of classes; `transform`, `tied`: of a masked language model, the second where the key
    is absent; `pooled`: the transform before classes of a row; `causal`: of a decoder, the end of the name of its class, which
    has the same head; `more`: heads of further classes.
    """
    masked = Head(tied=config("tie_word_embeddings", tied, tie_of_masked), bias=True, transform=transform)
    if causal:
        return head_of(config, name, {causal: masked, "ForMaskedLM": masked})
    heads = {
        "ForMaskedLM": masked,
        "ForPreTraining": masked,
        "ForSequenceClassification": classes(config, pool="first", transform=pooled),
        "ForTokenClassification": classes(config),
    }
    return head_of(config, name, heads | more)


def tie_of_masked(target: Target) -> bool:
    """Whether the head of a masked language model is tied; `MismatchError` for a head of classes."""
    if target("head.outputs") is not None:
        raise MismatchError("the head gives classes")
    return bool(target("head.tied"))


def head_names(
    architecture: Architecture,
    masked: tuple[str, str, str] = MASKED,
    bias: str = BIAS,
    pooled: tuple[str, str] = POOLED,
) -> Table:
    """Stored names of the head; a tied matrix is stored as the embedding, its bias by itself."""
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
