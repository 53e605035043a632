"""A trained model opened: what it reads and says of a text at every layer, where its heads look, and what a patch moves.

These functions run in a process with torch, and give plain data; models stay loaded between questions.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyformer.describe import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from anyformer.model.transformer import Transformer
    from anyformer.text import Tokenizer

MOST = 128
"""Tokens of a text at most."""
STRONGEST = 12
"""Entries of a value that are told, the largest in size first."""
WEIGHTS = "BHTS"
"""The letters of attention weights."""
MODELS = 2
"""Models that stay loaded."""
WRITTEN = 40
"""Tokens of a sample."""


@lru_cache(maxsize=MODELS)
def model_of(path: str, kept: Sequence[str]) -> tuple[Transformer, Tokenizer]:
    """The model of a path and its tokenizer; `kept`: the checkpoints there, so that a run that goes on is loaded again."""
    from anyformer.loading import load

    model, tokenizer = load(path)
    if tokenizer is None:
        raise UserError(f"{path}: has no tokenizer, so no text can be read")
    if model.architecture.two_inputs:
        raise UserError(f"{path}: reads a source besides its text: look into it in Python, by model.watch")
    return model, tokenizer


def ready() -> dict[str, Any]:
    """Import what looking into a model takes."""
    import anyformer.inspecting
    import anyformer.loading  # noqa: F401

    return {}


def reading(path: str, kept: Sequence[str], text: str) -> dict[str, Any]:
    """The tokens of a text, at every path of the stream what the head would say (the logit lens), what every head looks for."""
    from anyformer.inspecting import head_patterns, logit_lens

    model, tokenizer = model_of(path, kept)
    tokens_BT = _tokens(tokenizer, text)
    told: dict[str, Any] = {"tokens": [{"id": each, "text": tokenizer.decode([each])} for each in tokens_BT[0].tolist()]}
    lens, heads = None, []
    if model.architecture.head is not None and not model.architecture.head.pool:
        found = logit_lens(model, tokens_BT)
        likeliest_LTk = found.tokens_LBTk[:, 0].tolist()
        said = [[[tokenizer.decode([token]) for token in kept] for kept in each] for each in likeliest_LTk]
        lens = {
            "paths": list(found.paths), "likeliest": said, "probabilities": _rounded(found.probabilities_LBTk[:, 0]),
            "entropy": _rounded(found.entropy_LBT[:, 0]), "divergence": _rounded(found.divergence_LBT[:, 0]),
            "rank": found.rank_LBT[:, 0].tolist(), "says": [tokenizer.decode([token]) for token in found.wanted_BT[0].tolist()],
        }  # fmt: skip
    if any(each.letters == WEIGHTS for each in model.watchable().values()):
        heads = [asdict(each) for each in head_patterns(model, tokens_BT)]
    return {**told, "lens": lens, "heads": heads}


def attention(path: str, kept: Sequence[str], text: str, at: str) -> dict[str, Any]:
    """The attention weights at a path: per head a byte for every query and key, 255 is all."""
    model, _ = model_of(path, kept)
    if (letters := model.watchable()[at].letters) != WEIGHTS:
        raise UserError(f"path: {at} has the letters {letters}, and attention weights have {WEIGHTS}")
    value = _value(path, kept, text, at)
    heads = (value[0].float().clamp(0, 1) * 255).ceil().byte()
    return {"path": at, "queries": heads.shape[1], "keys": heads.shape[2], "heads": [_bytes(each) for each in heads]}


def strongest(path: str, kept: Sequence[str], text: str, at: str, position: int) -> dict[str, Any]:
    """The size of the value at a path for every token, and at a position its largest entries with their places."""
    model, _ = model_of(path, kept)
    told, value = model.watchable()[at], _value(path, kept, text, at)
    if told.letters[:2] != "BT":
        raise UserError(f"path: {at} has the letters {told.letters}, and a token's value has B and T first")
    rows = value[0].float().flatten(1)
    if not 0 <= position < len(rows):
        raise UserError(f"position: the text has positions 0 to {len(rows) - 1}, got {position}")
    here = rows[position]
    places = here.abs().topk(min(STRONGEST, len(here))).indices.tolist()
    shape = value.shape[2:]
    return {
        "path": at, "letters": told.letters, "about": told.about, "shape": list(shape), "norms": _rounded(rows.norm(dim=1)),
        "strongest": [{"at": _unravelled(place, shape), "value": round(float(here[place]), 6)} for place in places],
    }  # fmt: skip


def patched(path: str, kept: Sequence[str], text: str, other: str) -> dict[str, Any]:
    """The next token of the `other` text where places of the stream have the values of the first: 1 is all of the way."""
    import torch

    from anyformer.inspecting import LogitDifference, activation_patching

    model, tokenizer = model_of(path, kept)
    clean, corrupted = _tokens(tokenizer, text), _tokens(tokenizer, other)
    if clean.shape != corrupted.shape:
        sizes = f"{corrupted.shape[1]} tokens and the text {clean.shape[1]}"
        raise UserError(f"other: has {sizes}: values are exchanged token for token")
    with torch.no_grad():
        right, wrong = (model(tokens)[:, -1].argmax(-1) for tokens in (clean, corrupted))
    if int(right) == int(wrong):
        raise UserError(f"other: the model goes on with {tokenizer.decode([int(right)])!r} behind both texts: nothing is moved")
    grid = activation_patching(model, clean, corrupted, LogitDifference(right, wrong))
    words = [tokenizer.decode([each]) for each in corrupted[0].tolist()]
    return {
        "tokens": words, "right": tokenizer.decode([int(right)]), "wrong": tokenizer.decode([int(wrong)]),
        "paths": list(grid.changed), "restored": [_rounded(grid.restored(each)) for each in grid.changed],
    }  # fmt: skip


def samples(path: str, kept: Sequence[str], prompt: str) -> dict[str, Any]:
    """What a run's kept checkpoints write behind a prompt, the likeliest token every time."""
    from anyformer.generation import generate
    from anyformer.generation.sampling import GREEDY

    found = []
    for name in kept:
        model, tokenizer = model_of(str(Path(path) / "checkpoints" / name), ())
        text = generate(model, tokenizer, prompt, max_tokens=WRITTEN, sampling=GREEDY)
        found.append({"checkpoint": name, "step": int(name.removeprefix("step-")), "text": text})
    return {"prompt": prompt, "samples": found}


def _tokens(tokenizer: Tokenizer, text: str) -> Tensor:
    import torch

    ids = tokenizer.encode(text)
    if not 1 <= len(ids) <= MOST:
        raise UserError(f"text: should have 1 to {MOST} tokens here, got {len(ids)}")
    return torch.tensor([ids])


def _value(path: str, kept: Sequence[str], text: str, at: str) -> Tensor:
    """The value at a path in a call of the text."""
    import torch

    model, tokenizer = model_of(path, kept)
    with torch.no_grad(), model.watch(at) as seen:
        model(_tokens(tokenizer, text))
    return seen[at]


def _unravelled(place: int, shape: Sequence[int]) -> list[int]:
    """The numbers of an entry along the last dimensions."""
    found: list[int] = []
    for size in reversed(shape):
        place, rest = divmod(place, size)
        found.insert(0, rest)
    return found


def _bytes(cells: Tensor) -> str:
    return b64encode(cells.contiguous().numpy().tobytes()).decode()


def _rounded(numbers: Tensor) -> Any:
    """Nested lists with as many digits as a picture shows."""
    return (numbers.double() * 1e5).round().div(1e5).tolist()
