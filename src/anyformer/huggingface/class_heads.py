"""Decoders under another head than that of a language model: none, classes of a text or of each token, spans of answers.

transformers builds them from the same model and configuration: `LlamaModel`, `LlamaForSequenceClassification`. So a family
describes its language model alone, and which other classes it has is data here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from anyformer.huggingface.config import Config, shown
from anyformer.huggingface.decoder_classes import BASE, DECODERS, TEXT, Decoder
from anyformer.huggingface.errors import HuggingFaceError, MismatchError
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Table, To
from anyformer.huggingface.words.encoder_heads import SPANS, TOKENS, classes, spans
from anyformer.model import Architecture
from anyformer.parts import Head

if TYPE_CHECKING:
    from torch import Tensor

_SPANS: Mapping[str, str] = {r"^qa_outputs\.": "classifier."}
"""Name of the matrix of spans of an encoder -> that of classes of each token."""
_AS_TOKENS = ("modernbert",)
"""Types that store the matrix of spans under the name of that of classes of each token."""
OTHERS = (TEXT, TOKENS, SPANS, "ForMultipleChoice", "ForNextSentencePrediction")
"""Ends of the names of classes whose heads are none of language models."""


def check_head(config: Config, architecture: Architecture) -> None:
    """Refuse a class whose head was not read: the files would be taken for those of a language model."""
    if config.task in OTHERS and (architecture.head is None or architecture.head.outputs is None):
        raise HuggingFaceError(
            f"{config.where}: architectures = {shown(config.class_name)}: the head of this class is not read here; save the "
            f"model without it from transformers (model.base_model.save_pretrained), and train a head beside it"
        )


def beside(family: Family) -> Family:
    """The family, which reads and writes the other classes of its model type too, if it has any here."""
    decoder = DECODERS.get(family.model_type)
    if decoder is None:
        # Encoders read spans of answers like classes of each token.
        return replace(family, older_names={**family.older_names, **_SPANS})
    base = family.base or "model."
    older = dict(family.older_names)
    if TOKENS in decoder.heads and SPANS in decoder.heads and decoder.heads[TOKENS] != decoder.heads[SPANS]:
        older[rf"^{decoder.heads[SPANS]}\."] = f"{decoder.heads[TOKENS]}."
    if decoder.span_base is not None:
        older[rf"^{decoder.span_base}"] = base
    return replace(
        family,
        read=partial(_read, family, decoder),
        names=partial(_names, family, decoder, base),
        base=base,
        older_names=older,
    )


def of_class(family: Family, name: str, tensors: Iterator[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
    """The tensors under the names of a class: spans of answers are written like classes of each token, and stored otherwise."""
    decoder, renamed = DECODERS.get(family.model_type), dict[str, str]()
    if name.endswith(SPANS) and decoder is not None:
        matrix = decoder.heads[decoder.per_token or SPANS]
        renamed = {rf"^{matrix}\.": f"{decoder.heads[SPANS]}.", rf"^{family.base}": decoder.span_base or family.base}
    elif name.endswith(SPANS) and family.model_type not in _AS_TOKENS:
        renamed = {r"^classifier\.": "qa_outputs."}
    for stored, tensor in tensors:
        called = stored
        for pattern, theirs in renamed.items():
            called = re.sub(pattern, theirs, called)
        yield called, tensor


def _read(family: Family, decoder: Decoder, config: Config) -> Architecture:
    """The architecture of a configuration, with the head of its class."""
    if config.target is not None:
        _write_class(decoder, config, config.target.architecture)
    made, task, name = family.read(config), config.task, config.class_name
    if task == BASE and not name.endswith("HeadsModel"):
        return made.but(head=_without_logits(made.head), mtp=None)
    if task not in (TEXT, TOKENS, SPANS):
        return made
    if task not in decoder.heads:
        known = ", ".join(decoder.start + each for each in (BASE, *decoder.heads))
        raise HuggingFaceError(
            f"{config.where}: architectures = {name!r}, and beside the language model transformers has only {known}"
        )
    transform = None if made.head is None else made.head.transform
    if task != TEXT:
        of_tokens = classes(config, transform=transform)
        return made.but(head=spans(config, of_tokens) if task == SPANS else of_tokens, mtp=None)
    padding = config("pad_token_id", decoder.padding)
    passed = padding if padding is not None and 0 <= padding < (made.embedding.symbols or 0) else None
    return made.but(head=classes(config, bias=False, pool="last", passed_over=passed, transform=transform), mtp=None)


def _without_logits(head: Head | None) -> Head | None:
    """What is left of a language model's head where it gives features: the dense layer that stands before its matrix."""
    return None if head is None or head.transform is None else Head(outputs="features", transform=head.transform)


def _write_class(decoder: Decoder, config: Config, architecture: Architecture) -> None:
    """Record the class of an architecture that is no language model; `MismatchError` where there is no such class."""
    head, task = architecture.head, None
    if head is None or (head.outputs == "features" and head.pool is None):
        task = BASE
    elif head.pool is not None:
        task = TEXT
        config.put(pad_token_id=head.passed_over)
    elif head.outputs is not None and head.bias:
        task = decoder.per_token
        if task is None:
            raise MismatchError("no class of transformers for this type gives classes of each token")
    if task is None:
        return
    if task != BASE and task not in decoder.heads:
        raise MismatchError(f"no class {decoder.start}{task} is in transformers")
    config.put(architectures=[decoder.start + task])


def _names(family: Family, decoder: Decoder, base: str, architecture: Architecture) -> Names:
    """The stored names under the head that the architecture has."""
    names, head = family.names_of(architecture), architecture.head
    if head is None or head.outputs == "features":
        if decoder.prefixed:
            return names
        layers = {stack: (prefix.removeprefix(base), table) for stack, (prefix, table) in names.layers.items()}
        return Names(_bare(names.outside, base), layers)
    if head.pool is not None or (head.outputs is not None and head.bias):
        task = TEXT if head.pool is not None else decoder.per_token
        outside = {ours: to for ours, to in names.outside.items() if not _of_matrix(ours)}
        return Names({**outside, "head": decoder.heads[task or TEXT]}, names.layers)
    return names


def _of_matrix(ours: str | tuple[str, ...]) -> bool:
    return ours in ("head", "head.weight", "head.bias")


def _bare(table: Table, base: str) -> Table:
    """The table with stored names that lack `base`."""
    targets = {ours: to if isinstance(to, To) else To(to) for ours, to in table.items()}
    return {ours: replace(to, name=to.name.removeprefix(base)) for ours, to in targets.items()}
