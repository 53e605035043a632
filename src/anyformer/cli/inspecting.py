"""Examples on a screen: tokens in colour by what they are, targets beneath, and attention as a small picture."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from anyformer.cli.picture_on_screen import print_picture
from anyformer.cli.spectrogram import print_heard
from anyformer.cli.text_on_screen import safe

if TYPE_CHECKING:
    from torch import Tensor

    from anyformer.training.inspection import InspectedToken, Seen

CELLS = 16
"""Rows of a picture of attention at most; a row has twice as many columns."""
SHADES = " ░▒▓█"
DOCUMENTS = ("on grey15", "on grey23")
LEGEND = (
    "special tokens are magenta, a prefix is cyan, padding is dim, documents have backgrounds in turn; where not all is "
    "learnt, what is learnt is green, special tokens underlined; a target that is not the next token stands behind an arrow, "
    "· is a position without a target"
)


def print_seen(console: Console, seen: Seen) -> None:
    """Print one row of a batch."""
    console.rule(f"sample {seen.sample:,}" + ("" if seen.label is None else f": label {seen.label}"), align="left")
    for heard in seen.sounds:
        print_heard(console, heard)
    for shown in seen.images:
        print_picture(console, shown)
    for sequence in seen.sequences:
        places = sequence.places
        facts = [f"{len(places):,} positions", f"{sum(place.target is not None for place in places):,} targets"]
        facts += [f"{count:,} {name}" for name, count in _counts(places) if count]
        console.print(Text(f"{sequence.role}: {', '.join(facts)}", style="bold"))
        console.print(_read(places))
        if any(place.target is not None for place in places):
            console.print(Text("predicts", style="bold"))
            console.print(_predicted(places))
        for name, mask in sequence.masks.items():
            console.print(Text(f"attention of {name}: queries down, keys across", style="bold"))
            console.print(_attention(mask), no_wrap=True, overflow="crop")


def _counts(places: tuple[InspectedToken, ...]) -> Iterator[tuple[str, int]]:
    documents = {place.document for place in places if not place.padding}
    yield "documents", len(documents) if len(documents) > 1 else 0
    yield "of prefix", sum(place.prefix for place in places)
    yield "of padding", sum(place.padding for place in places)


def _read(places: tuple[InspectedToken, ...]) -> Text:
    """The tokens in order; a run of padding as its length."""
    text, learnt = Text(), _learnt(places)
    for padding, run in groupby(enumerate(places), key=lambda item: item[1].padding):
        group = list(run)
        if padding:
            text.append(f" ⟨{len(group)} of padding⟩", style="dim")
            continue
        for number, place in group:
            text.append(_word(place.text, special=place.special), style=_style(place, learnt=number in learnt))
    return text


def _learnt(places: tuple[InspectedToken, ...]) -> frozenset[int]:
    """The places of tokens that the ones before them predict, where some are and some are not."""
    real = [(before, after) for before, after in pairwise(range(len(places))) if not places[after].padding]
    found = frozenset(after for before, after in real if places[before].target == places[after].text)
    return found if len(found) < len(real) else frozenset()


def _predicted(places: tuple[InspectedToken, ...]) -> Text:
    """What the positions predict; where it is not the next token, behind what it reads. Runs without a target as their
    length."""
    text = Text()
    for silent, run in groupby(enumerate(places), key=lambda item: item[1].target is None):
        group = list(run)
        if silent:
            text.append(" ·" if len(group) == 1 else f" ·×{len(group)} ", style="dim")
            continue
        for number, place in group:
            following = places[number + 1].text if number + 1 < len(places) else place.target
            assert place.target is not None
            if place.target != following:
                text.append(f" {_word(place.text, special=place.special)}→", style="dim")
            text.append(_word(place.target, special=False), style="green")
            if place.weight != 1.0:
                text.append(f"({place.weight:.3g})", style="yellow")
    return text


def _word(text: str, *, special: bool) -> str:
    return safe(text) if special else safe(text.replace("\n", "↵\n"))


def _style(place: InspectedToken, learnt: bool) -> str:
    if place.special:
        return f"bold magenta{' underline' if learnt else ''}"
    colour = "green " if learnt else "cyan " if place.prefix else ""
    return f"{colour}{DOCUMENTS[place.document % 2] if place.document else ''}".strip()


def _attention(mask: Tensor) -> Text:
    """The share of allowed pairs per cell, as shades."""
    length = len(mask)
    cells = min(CELLS, length)
    edges = [length * cell // cells for cell in range(cells + 1)]
    lines = []
    for top, bottom in pairwise(edges):
        shares = [float(mask[top:bottom, left:right].float().mean()) for left, right in pairwise(edges)]
        lines.append("".join(SHADES[min(4, int(share * 4 + 0.999))] * 2 for share in shares))
    return Text("\n".join(lines), style="blue")
