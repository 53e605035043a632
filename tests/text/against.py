"""What a tokenizer does to texts here and in transformers, with the same files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from anyformer.text import StreamDecoder, Tokenizer


class Difference(NamedTuple):
    """What is not the same, of which text."""

    what: str
    text: str
    ours: Any
    theirs: Any


def differences(ours: Tokenizer, theirs: Any, texts: Iterable[str]) -> list[Difference]:
    """Every difference in tokens, frames, offsets, decoded texts and streams of texts."""
    return [
        Difference(what, text, own, wanted)
        for text in texts
        for what, own, wanted in _asked(ours, theirs, text)
        if own != wanted
    ]


def _asked(ours: Tokenizer, theirs: Any, text: str) -> Iterator[tuple[str, Any, Any]]:
    plain = theirs(text, add_special_tokens=False, split_special_tokens=True, return_offsets_mapping=True)
    ids = plain["input_ids"]
    yield "encode", ours.encode(text), ids
    yield "offsets", ours.offsets(text).tolist(), [list(span) for span in plain["offset_mapping"]]
    framed = theirs(text, split_special_tokens=True, return_token_type_ids=True)
    found = ours.framed(ours.encode(text))
    yield "framed", found.tokens, framed["input_ids"]
    yield "types", found.types, framed["token_type_ids"]
    marked = theirs(text, add_special_tokens=False)["input_ids"]
    for name, tokens in {"plain": ids, "framed": framed["input_ids"], "marked": marked}.items():
        for special in (False, True):

            def decoded(numbers: Sequence[int], special: bool = special) -> str:
                said: str = theirs.decode(numbers, skip_special_tokens=not special)
                return said

            where = f"{name}{', special' if special else ''}"
            yield f"decode, {where}", ours.decode(tokens, special=special), decoded(tokens)
            yield f"stream, {where}", streamed(ours, tokens, special=special), decoded(tokens)
            for before in sorted({1, 2, len(tokens) // 2, len(tokens) - 1} & set(range(1, len(tokens)))):
                if (new := continued(decoded, tokens[:before], tokens[before:])) is not None:
                    yield f"continued, {where}", streamed(ours, tokens[before:], before=tokens[:before], special=special), new


def streamed(tokenizer: Tokenizer, tokens: Sequence[int], **settings: Any) -> str:
    """The pieces of a stream, joined."""
    decoder = StreamDecoder(tokenizer, **settings)
    return "".join([*map(decoder.push, tokens), decoder.finish()])


def continued(decoded: Callable[[Sequence[int]], str], before: Sequence[int], new: Sequence[int]) -> str | None:
    """What a text has behind that of its first tokens; None where these end within a character, or say something else alone."""
    first, whole = decoded(before), decoded([*before, *new])
    return whole[len(first) :] if whole.startswith(first) else None
