"""Values to which a key is moved: by its kind, by what the class's annotations and its source compare it with."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Literal, get_args, get_origin

import transformers
from benchmarks.drift.keys import source
from benchmarks.drift.known import marks_places
from benchmarks.drift.rope import TABLES, legacy, tables

from anyformer.huggingface.vocabulary import (
    FLAG,
    INTEGERS,
    KINDS,
    LAYERS,
    NAME,
    NAMES,
    NUMBER,
    NUMBERS,
    POSITIVE,
    SIZE,
    TABLE,
    WHOLE,
)
from huggingface.case import T

Move = Mapping[str, Any]
"""What a value sets beside each other: the key itself, and keys without which it has no effect."""
ACTIVATIONS = ("gelu", "relu", "gelu_new", "silu", "quick_gelu", "tanh", "relu2", "gelu_pytorch_tanh", "sigmoid", "mish")
_KNOWN: Mapping[str, tuple[Any, ...]] = {
    "attn_implementation": (),
    "position_embedding_type": ("absolute", "relative_key", "relative_key_query", "rotary"),
    "dtype": ("float16", "bfloat16"),
    "torch_dtype": ("float16", "bfloat16"),
    "problem_type": ("regression", "multi_label_classification"),
    "id2label": ({"0": "no", "1": "yes"}, {"0": "a", "1": "b", "2": "c"}),
    "label2id": ({"no": 0, "yes": 1},),
    "num_labels": (3, 1, 5),
    "_num_labels": (3, 5),
    "architectures": (),
    "pruned_heads": ({"0": [1]}, {"1": [0, 1]}),
    "per_layer_config": ({"0": {"sliding_window": 3}}, {"1": {"intermediate_size": 24}}),
    "attention_types": ([[["global"], 2]], [[["local"], 2]], [[["local", "global"], 1]]),
    "feed_forward_proj": ("relu", "gelu", "gated-gelu", "gated-silu", "gated-relu"),
    "scoring_func": ("softmax", "sigmoid", "sqrtsoftplus"),
    "score_function": ("softmax", "sigmoid"),
    "topk_method": ("greedy", "group_limited_greedy", "noaux_tc"),
    "normalization": ("LayerNorm", "RMSNorm"),
    "task_specific_params": ({"x": {"max_length": 3}},),
    "summary_type": ("first", "mean", "cls_index"),
    "activation_sparsity_pattern": (0.5, [0.5, 0.0]),
    "bad_words_ids": ([[3, 4]],),
    "auto_map": ({"AutoConfig": "x.Y"},),
    "exponential_decay_length_penalty": ([5, 1.1],),
    "suppress_tokens": ([3, 7],),
    "begin_suppress_tokens": ([3, 7],),
    "rope_type": (),
    # With fewer heads some scores are 0, and among equal ones any keys are chosen.
    "index_n_heads": (32, 24),
}
"""Key -> its values, where its kind does not say them."""
_IDS = re.compile(r"(_|^)(token_ids?|token_index|ids?|index)$")
LENGTH = re.compile(r"max_.*(position|len)|n_positions|n_ctx|context_length|max_seq")
"""Keys that bound the length of texts."""
_PIECES = re.compile(r"(chunk|block|keep_window)_size$|capacity$|pretraining_tp")
"""Keys that say by how many positions, experts' tokens or pieces something is computed at once."""
_COMPARED = r"\b{key}\b\s*(?:==|!=|in|not in)\s*([\(\[\{{]?[^:\n]*)"
_TEXT = re.compile(r"[\"']([\w\-\./ ]+)[\"']")
HELD = 13
"""A token that the texts that are tried hold."""
MOST = 6
"""Values of one key."""


def values(model_type: str, key: str, usual: Any, base: Any, frequencies: int) -> list[Move]:
    """What to set for a key: `usual` is its default, `base` its value in the tiny configuration.

    `frequencies`: pairs of features that turn, whose number lists of factors must have.
    """
    if key in TABLES:
        found: list[Move] = list(tables(key, base, frequencies))
    elif key in ("rope_theta", "rotary_emb_base", "rope_scaling"):
        found = [*legacy(key, base, frequencies), *({key: value} for value in _scalars(1e4 if base is None else base))]
    else:
        found = [{key: value} for value in _values(model_type, key, usual, base)]
    distinct = []
    for move in found:
        if move not in distinct and not _same(move.get(key, ...), base):
            distinct.append(move)
    return distinct if key in TABLES or key == "rope_scaling" else distinct[:MOST]


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other


def _values(model_type: str, key: str, usual: Any, base: Any) -> Iterator[Any]:
    like = usual if base is None else base
    if key in _KNOWN:
        yield from _KNOWN[key]
        yield None
        return
    yield from _literals(model_type, key)
    if _IDS.search(key):
        # No text that is tried has 3 or 4. Of one that has padding RoBERTa's line counts positions otherwise, as is said of it.
        yield from (3, 4) if "pad" in key or marks_places(key) else (HELD, 3)
        if key in ("eos_token_id", "bos_token_id"):
            yield [2, 9]
    elif isinstance(like, bool):
        yield not like
    elif isinstance(like, int | float):
        yield from _numbers(key, like)
    elif isinstance(like, str):
        yield from _texts(model_type, key, like)
    elif isinstance(like, list | tuple):
        yield from _lists(model_type, key, list(like))
    elif isinstance(like, Mapping):
        for inner, value in like.items():
            for other in _values(model_type, inner, None, value):
                yield {**like, inner: other}
    else:
        yield from (T + 3, T + 8) if LENGTH.search(key) else ()
        yield from _unset(model_type, key)
    yield None


def _numbers(key: str, value: float) -> Iterator[float]:
    if re.search("drop|jitter", key):
        yield from (0.3, 0.1, 0.9)
    elif LENGTH.search(key):
        yield from _longer(value)
    elif _PIECES.search(key):
        yield from (3, 5, 1)  # shorter than the texts that are tried
    else:
        yield from _scalars(value)


def _scalars(value: float) -> Iterator[float]:
    """Other numbers, which keep shapes consistent where they can."""
    if isinstance(value, float):
        usual = (value * 1.7, value * 0.5, 0.0) if value else (0.3, 1.7)
        yield from ((1e-2, 0.1) if 0 < value < 1e-2 else usual)
        return
    yield from (candidate for candidate in (2 * value, value // 2, value + 1, value - 1, 1, 3, 0) if candidate >= 0)


def _longer(value: float) -> tuple[float, ...]:
    """Other lengths, none shorter than the texts that are tried."""
    return 2 * value, value + 1, T + 3, T + 8


def _texts(model_type: str, key: str, value: str) -> Iterator[str]:
    """Activations, or what the class compares the key with."""
    if value in transformers.activations.ACT2FN:
        yield from ACTIVATIONS
    yield from _compared(model_type, key)
    yield "something-else"


def _lists(model_type: str, key: str, value: list[Any]) -> Iterator[list[Any]]:
    """Another order, all entries alike, other entries, one entry less."""
    yield value[::-1]
    yield value[1:] + value[:1]
    for each in dict.fromkeys(value if all(isinstance(each, str | int | float) for each in value) else ()):
        yield [each] * len(value)
    if value and all(type(each) in (int, float) for each in value):
        yield [each + 1 for each in value]
        yield [2 * each for each in value]
    if value and all(isinstance(each, str) for each in value):
        for other in (*_compared(model_type, key), *_layer_types(model_type)):
            yield [other, *value[1:]]
            yield [*value[:-1], other]
    yield value[:-1]
    yield []


@cache
def _layer_types(model_type: str) -> tuple[str, ...]:
    text = source(model_type)
    known = transformers.configuration_utils.ALLOWED_LAYER_TYPES
    return tuple(name for name in known if f'"{name}"' in text)


@cache
def _compared(model_type: str, key: str) -> tuple[str, ...]:
    """The texts with which a class compares a key."""
    found = re.findall(_COMPARED.format(key=key.rstrip("s")), source(model_type))
    return tuple(dict.fromkeys(text for each in found for text in _TEXT.findall(each)))


@cache
def _literals(model_type: str, key: str) -> tuple[Any, ...]:
    """The values that a class's annotation lists."""
    for kind in transformers.CONFIG_MAPPING[model_type].__mro__:
        said = inspect.get_annotations(kind).get(key)
        if said is not None:
            return (
                tuple(_inside(said)) if not isinstance(said, str) else tuple(_TEXT.findall(said)) if "Literal" in said else ()
            )
    return ()


def _inside(said: Any) -> Iterator[Any]:
    if get_origin(said) is Literal:
        yield from get_args(said)
    else:
        for inner in get_args(said):
            yield from _inside(inner)


def _unset(model_type: str, key: str) -> Iterator[Any]:
    """For a key that is null or absent by default, by what it is declared as."""
    said = " ".join(
        str(inspect.get_annotations(kind)[key])
        for kind in transformers.CONFIG_MAPPING[model_type].__mro__
        if key in inspect.get_annotations(kind)
    )
    kind = KINDS.get(key)
    if "bool" in said or kind is FLAG:
        yield from (True, False)
    if re.search(r"list\[str", said) or kind is NAMES:
        yield from ([name] * 2 for name in _layer_types(model_type))
    elif "list" in said or kind in (INTEGERS, NUMBERS):
        yield from ([0], [1], [1, 1])
    if re.search(r"(?<!\[)\bint\b", said) or kind in (SIZE, WHOLE, LAYERS):
        yield from (4, 2, 8, 3, 1)
    if "float" in said or kind in (NUMBER, POSITIVE):
        yield from (0.5, 1.7, 3.0)
    if re.search(r"(?<!\[)\bstr\b", said) or kind is NAME:
        yield from _compared(model_type, key)
        yield from ("gelu", "relu", "something-else")
    if "dict" in said or kind is TABLE:
        yield {}
    yield from (2, "something-else", True, ["something-else"])
