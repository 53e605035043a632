"""What may be asked of a generation, and what holds where nothing is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypedDict

from anyformer.describe import InputError, did_you_mean
from anyformer.generation.beams import Beams
from anyformer.generation.decoding import Decoding
from anyformer.generation.drafting import Drafter
from anyformer.generation.generation_config import MANNERS, decoding_of
from anyformer.generation.places import PlaceMaker
from anyformer.generation.processors import WithinVocabulary
from anyformer.generation.sampling import GREEDY, Sampling
from anyformer.generation.sounds import SoundFrames
from anyformer.generation.speculative import Acceptance
from anyformer.model.transformer import Transformer
from anyformer.parts.images.encoder_module import Images
from anyformer.text import DataError, Tokenizer
from anyformer.text.beside import CONFIG, GENERATION
from anyformer.text.chat import answer_end

OWN = Sampling(temperature=0.8)
"""How tokens are chosen of a model without authors' files."""


class GenerationSettings(TypedDict, total=False):
    """The keyword arguments of a generation; all may be left out."""

    max_tokens: int | None
    """New tokens at most; by default what the model's authors say, or 128."""
    sampling: Sampling | None
    """How tokens are chosen; by default as the model's authors do it, and for a model without a file of theirs drawn at a
    temperature of 0.8."""
    beams: Beams | None
    """A search for the likeliest text instead, or with a `sampling` that draws, among drawn ones."""
    answers: int | None
    """Texts of each prompt."""
    decoding: Decoding | None
    """All of the former at once, instead of what the authors say."""
    stop: Sequence[str]
    """Texts before which a row ends, special tokens by their names among them."""
    ends: Sequence[int] | None
    """Tokens that end a row; by default those that the model's authors name."""
    start: int | None
    """The first token of a decoder that reads a source; by default the one that the authors name."""
    special: bool
    """Show special tokens."""
    compile: bool | None
    """Compile the decode step by torch's compiler, or compute it by torch's calls; None computes it from a table in C++ where
    a C++ compiler is, and else compiles jobs that are long enough to recover the time."""
    block: int | None
    """Of a model that fills masks: positions that are revealed before the next ones, by default all together."""
    chat: bool
    """Each prompt is what a user says, written by the tokenizer's chat template; a row ends where the answer does, too."""
    images: Images | None
    """(n, channels, height, width): those of all prompts in order, each where its prompt has the token for an image."""
    sounds: SoundFrames | None
    """Those of all prompts in order, each where its prompt has the token for a sound; read together with all of their texts."""
    batch: int | None
    """Prompts at a time, each of which leaves its place to the next when it ends; by default all together. The texts are the
    same."""
    draft: Drafter | Transformer | None
    """What proposes tokens, several of which one pass of the model then verifies: a smaller model, a `Draft` or a `Lookup`;
    then one prompt is computed after the other."""
    acceptance: Acceptance | None
    """Counts what was proposed and taken."""
    logprobs: int | None
    """Tell of each token its log-probability, and those of so many of the likeliest ones."""
    max_time: float | None
    """Seconds after which all rows end."""
    done: Callable[[int], None] | None
    """Told the number of each row that ended."""
    places: PlaceMaker | None
    """What computes logits in the place of the model, of which then only the architecture is asked: see `engines`."""


def decoding_for(tokenizer: Tokenizer | None, settings: GenerationSettings) -> Decoding:
    """What is asked for, and where nothing is, what the model's authors say."""
    _check_known(settings)
    sampling = settings.get("sampling")
    found = settings.get("decoding") or authors_decoding(tokenizer, manners=sampling is not None)
    if sampling is not None:
        parts = found.sampling.processors if settings.get("decoding") is None and has_authors(tokenizer) else ()
        found = replace(found, sampling=sampling.with_parts(*parts), beams=None, answers=1)
    elif settings.get("beams") is not None and not has_authors(tokenizer):
        # A search is for the likeliest text, unless somebody asks for draws.
        found = replace(found, sampling=GREEDY)
    if (beams := settings.get("beams")) is not None:
        found = replace(found, beams=beams)
    named: dict[str, Any] = {name: settings.get(name) for name in ("answers", "max_tokens", "max_time")}
    found = replace(found, **{name: value for name, value in named.items() if value is not None})
    found = replace(found, stop=tuple(dict.fromkeys((*settings.get("stop", ()), *found.stop))))
    if any(not text for text in found.stop):
        raise InputError("a stop string is empty")
    return found


def _check_known(settings: Mapping[str, object]) -> None:
    """Refuse a name that is none of the settings."""
    known = GenerationSettings.__annotations__
    for name in settings:
        if name in Sampling.model_fields:
            raise InputError(f"{name!r} is part of how tokens are chosen: give sampling=Sampling({name}=...)")
        if name not in known:
            raise InputError(f"a generation has no setting {name!r}{did_you_mean(name, known)}")


def authors_decoding(tokenizer: Tokenizer | None, *, manners: bool = False) -> Decoding:
    """How a model's authors continue text; of a model without files of theirs, tokens are drawn.

    `manners`: only what holds whatever else tokens are chosen by.
    """
    table, where = authors_table(tokenizer)
    if table is not None and manners:
        table = {key: value for key, value in table.items() if key in MANNERS}
    return Decoding(OWN) if table is None else decoding_of(table, where)


def authors_table(tokenizer: Tokenizer | None) -> tuple[Mapping[str, Any] | None, str]:
    """The settings that stand beside a model's weights, None without files of its authors; and the file's path."""
    if tokenizer is None or not has_authors(tokenizer):
        return None, ""
    beside = tokenizer.beside
    file = GENERATION if GENERATION in beside else CONFIG
    return tokenizer.conventions.generation, f"{beside.where}/{file}" if beside.where else file


def has_authors(tokenizer: Tokenizer | None) -> bool:
    """Whether files of a model's authors stand beside its weights."""
    return tokenizer is not None and (GENERATION in tokenizer.beside or CONFIG in tokenizer.beside)


def within(sampling: Sampling, model: Transformer, tokenizer: Tokenizer | None) -> Sampling:
    """The sampling without the numbers that a model's table has beyond its tokenizer's."""
    outputs = model.architecture.outputs
    if tokenizer is None or outputs is None or not 0 < tokenizer.vocab_size < outputs:
        return sampling
    return sampling.with_parts(WithinVocabulary(size=tokenizer.vocab_size))


def ends_for(tokenizer: Tokenizer | None, settings: GenerationSettings, template: str | None = None) -> tuple[int, ...]:
    """The tokens that end a row; of a chat that a `template` writes, by default the usual one, the end of its turn too."""
    if (asked := settings.get("ends")) is not None:
        return tuple(asked)
    if tokenizer is None:
        return ()
    if not settings.get("chat"):
        return tokenizer.ends
    try:
        turn = answer_end(tokenizer, template)
    except DataError:
        if not tokenizer.conventions.ends:
            raise
        return tokenizer.conventions.ends
    return tuple(dict.fromkeys((turn, *tokenizer.ends)))


def start_for(model: Transformer, tokenizer: Tokenizer | None, settings: GenerationSettings) -> int | None:
    """The first token of the targets of a model with two inputs; None for others."""
    if not model.architecture.two_inputs:
        return None
    if (asked := settings.get("start")) is not None:
        return asked
    return None if tokenizer is None else tokenizer.start
