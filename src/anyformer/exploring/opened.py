"""A trained model opened: what it reads and says of a text at every layer, where its heads look, and what a patch moves.

These functions run in a process with torch, and give plain data; models stay loaded between questions.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyformer.describe import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from anyformer.inspecting import AskedText
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
OFFERED = 8
"""Tokens that are offered as answers to ask about, the likeliest first."""
SHARES = 24
"""Shares of a logit that are told, the largest in size first."""


@dataclass(frozen=True)
class OpenedText:
    """A text and what is asked of it, as `anyformer.inspect.AskedText` reads it."""

    text: str
    against: str | None = None
    wanted: str | None = None
    other: str | None = None
    position: int = -1


@lru_cache(maxsize=MODELS)
def model_of(path: str, kept: Sequence[str]) -> tuple[Transformer, Tokenizer]:
    """The model of a path and its tokenizer; `kept`: the checkpoints there, so that a run that goes on is loaded again."""
    from anyformer.inspecting import check_reads_tokens
    from anyformer.loading import load

    model, tokenizer = load(path)
    check_reads_tokens(model.architecture, path)
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


def reading(path: str, kept: Sequence[str], given: OpenedText) -> dict[str, Any]:
    """The tokens of a text, at every path of the stream what the head would say (the logit lens), what every head looks for,
    and what adds to the logit that is asked about."""
    from anyformer.inspecting import head_patterns

    asked = asked_of(path, kept, given)
    model = asked.model
    tokens = [{"id": each, "text": asked.tokenizer.decode([each])} for each in asked.clean[0].tolist()]
    said, heads = _said(asked) if _says_words(model) else {"lens": None, "asked": None, "attribution": None}, []
    if any(each.letters == WEIGHTS for each in model.watchable().values()):
        heads = [asdict(each) for each in head_patterns(model, asked.clean)]
    return {"tokens": tokens, **said, "heads": heads}


def _said(asked: AskedText) -> dict[str, Any]:
    """What the head says of a text at every layer, and of what the logit that is asked about is made."""
    from anyformer.inspecting import attribution, logit_lens

    word, (wanted, other) = asked.tokenizer.decode, asked.numbers
    followed = None if asked.wanted is None and other is None else asked.everywhere(wanted)
    found = logit_lens(asked.model, asked.clean, wanted=followed, other=asked.everywhere(other))
    said = [[[word([token]) for token in kept] for kept in each] for each in found.tokens_LBTk[:, 0].tolist()]
    lens = {
        "paths": list(found.paths), "likeliest": said, "probabilities": rounded(found.probabilities_LBTk[:, 0]),
        "entropy": rounded(found.entropy_LBT[:, 0]), "divergence": rounded(found.divergence_LBT[:, 0]),
        "rank": found.rank_LBT[:, 0].tolist(), "wanted": rounded(found.wanted_LBT[:, 0]),
        "difference": None if found.difference_LBT is None else rounded(found.difference_LBT[:, 0]),
        "says": [word([token]) for token in found.wanted_BT[0].tolist()],
    }  # fmt: skip
    shares = attribution(asked.model, asked.clean, wanted=asked.everywhere(wanted), against=asked.everywhere(other))
    lines = sorted(shares.lines(position=asked.position), key=lambda each: -abs(each[1]))
    logit, rest = (float(each[0, asked.position]) for each in (shares.logit_BT, shares.rest_BT))
    figures = {
        "logit": round(logit, 5), "rest": round(rest, 5), "shares": [(name, round(each, 5)) for name, each in lines[:SHARES]],
        "others": len(lines[SHARES:]), "of_others": round(sum(each for _, each in lines[SHARES:]), 5),
    }  # fmt: skip
    return {"lens": lens, "asked": _answer(asked), "attribution": figures}


def _answer(asked: AskedText) -> dict[str, Any]:
    """The tokens and the position that are asked about, and the likeliest ones there, with whether their text names them."""

    def word(number: int) -> str:
        return asked.tokenizer.decode([number], special=True, clean=False)

    (wanted, other), likeliest = asked.numbers, asked.likeliest(OFFERED)
    return {
        "about": asked.about, "wanted": word(wanted), "other": None if other is None else word(other),
        "position": asked.position % asked.clean.shape[1],
        "likeliest": [{"text": word(each), "named": asked.tokenizer.encode(word(each)) == [each]} for each in likeliest],
    }  # fmt: skip


def _says_words(model: Transformer) -> bool:
    """Whether the head says a token at every position."""
    return model.architecture.head is not None and not model.architecture.head.pool


def attention(path: str, kept: Sequence[str], given: OpenedText, at: str) -> dict[str, Any]:
    """The attention weights at a path: per head a byte for every query and key, 255 is all."""
    model, _ = model_of(path, kept)
    if (letters := model.watchable()[at].letters) != WEIGHTS:
        raise UserError(f"path: {at} has the letters {letters}, and attention weights have {WEIGHTS}")
    value = _value(path, kept, given, at)
    heads = (value[0].float().clamp(0, 1) * 255).ceil().byte()
    return {"path": at, "queries": heads.shape[1], "keys": heads.shape[2], "heads": [_bytes(each) for each in heads]}


def strongest(path: str, kept: Sequence[str], given: OpenedText, at: str) -> dict[str, Any]:
    """The size of the value at a path for every token, and at the position its largest entries with their places."""
    model, _ = model_of(path, kept)
    told, value = model.watchable()[at], _value(path, kept, given, at)
    if told.letters[:2] != "BT":
        raise UserError(f"path: {at} has the letters {told.letters}, and a token's value has B and T first")
    rows = value[0].float().flatten(1)
    here = rows[given.position]
    places = here.abs().topk(min(STRONGEST, len(here))).indices.tolist()
    shape = value.shape[2:]
    return {
        "path": at, "letters": told.letters, "about": told.about, "shape": list(shape), "norms": rounded(rows.norm(dim=1)),
        "strongest": [{"at": _unravelled(place, shape), "value": round(float(here[place]), 6)} for place in places],
    }  # fmt: skip


def patched(path: str, kept: Sequence[str], given: OpenedText) -> dict[str, Any]:
    """What is asked about, of the second text where places of the stream, or heads, have the values of the first: 1 is all of
    the way."""
    from anyformer.inspecting import activation_patching, streams, writers

    asked = asked_of(path, kept, given)
    if not _says_words(asked.model):
        raise UserError(f"against: the head of {path} says no tokens, whose logits patching follows: take activation_patching")
    clean, corrupted, remark = asked.of_both()
    heads = [each.by_head for each in writers(asked.model) if each.heads]
    found = {}
    for name, paths, by in (("stream", streams(asked.model), "T"), ("heads", heads, "H")):
        grid = activation_patching(asked.model, asked.clean, asked.corrupted, asked.metric, paths, by=by) if paths else None
        if grid is not None:
            found[name] = {"paths": list(grid.changed), "restored": [rounded(grid.restored(each)) for each in grid.changed]}
    words = [asked.tokenizer.decode([each]) for each in asked.corrupted[0].tolist()]
    return {**_answer(asked), "tokens": words, "clean": clean, "corrupted": corrupted, "remark": remark, **found}


def samples(path: str, kept: Sequence[str], given: OpenedText) -> dict[str, Any]:
    """What a run's kept checkpoints write behind a prompt, the likeliest token every time."""
    from anyformer.generation import generate
    from anyformer.generation.sampling import GREEDY

    found = []
    for name in kept:
        model, tokenizer = model_of(str(Path(path) / "checkpoints" / name), ())
        text = generate(model, tokenizer, given.text, max_tokens=WRITTEN, sampling=GREEDY)
        found.append({"checkpoint": name, "step": int(name.removeprefix("step-")), "text": text})
    return {"prompt": given.text, "samples": found}


def asked_of(path: str, kept: Sequence[str], given: OpenedText) -> AskedText:
    """The model asked about a text; refused where it is too long to be drawn, or a token is named that the head cannot say."""
    from anyformer.inspecting import AskedText

    model, tokenizer = model_of(path, kept)
    asked = AskedText(model, tokenizer, **vars(given))
    count = asked.tokens(given.text).shape[1]
    if not 1 <= count <= MOST:
        raise UserError(f"text: should have 1 to {MOST} tokens here, got {count}")
    named = [name for name in ("wanted", "other") if vars(given)[name] is not None]
    if named and not _says_words(model):
        raise UserError(f"{named[0]}: the head of {path} says no tokens: leave it out")
    return asked


def _value(path: str, kept: Sequence[str], given: OpenedText, at: str) -> Tensor:
    """The value at a path in a call of the text."""
    import torch

    asked = asked_of(path, kept, given)
    with torch.no_grad(), asked.model.watch(at) as seen:
        asked.model(asked.clean)
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


def rounded(numbers: Tensor) -> Any:
    """Nested lists with as many digits as a picture shows."""
    return (numbers.double() * 1e5).round().div(1e5).tolist()
