"""Many prompts at few places: a row that ends leaves its place to the next prompt (continuous batching).

Every prompt gets the tokens that it gets alone. Yu et al. 2022 (Orca, OSDI) replace rows between steps in this way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat

import torch
from torch import Tensor

from anyformer.generation.chances import Token, chances
from anyformer.generation.places import TextPlaces
from anyformer.generation.prefixes import Prefixes
from anyformer.generation.sampling import Sampling


def served(
    places: TextPlaces,
    prompts: Sequence[Sequence[int]],
    *,
    sampling: Sampling,
    max_tokens: int,
    ended: Callable[[int], bool],
    ends: Sequence[int] = (),
    start: int | None = None,
    likeliest: int | None = None,
) -> Iterator[list[Token]]:
    """The token of every prompt that gets one, again and again, as many as there are `places` at a time, until all have ended.

    A row ends at `max_tokens`, or when `ended` of its number is true, which is asked after each of its tokens was given; `ends`
    are what a part of `sampling` may know of it. `likeliest`: tokens whose chances are told beside. `start`: as in `continued`.
    """
    queue, device = deque(range(len(prompts))), places.device
    rows: list[int | None] = [None] * places.count  # the number of the prompt at each place
    made = [0] * places.count
    pending = [0] * places.count
    numbers_B = torch.zeros(places.count, dtype=torch.int64, device=device)
    texts: Prefixes | None = None
    everywhere = list(range(places.count))

    def given(at: Sequence[int], logits: Tensor) -> list[Token]:
        """The tokens chosen for the rows at some places, which then wait for the next step."""
        numbers, counts = numbers_B, made
        if at is not everywhere:
            numbers, counts = numbers_B[torch.tensor(at, device=device)], [made[place] for place in at]
        tokens = sampling.choose_numbers(logits, numbers, _index(counts), texts and texts.fork(at))
        for place, token in zip(at, tokens, strict=True):
            pending[place] = token
        if texts is not None:
            texts.add(torch.tensor(tokens, device=device), at)
        told = repeat(None) if likeliest is None else chances(logits, torch.tensor(tokens, device=device), likeliest)
        taken = zip(at, tokens, told, strict=False)
        return [Token(row, token, chance) for place, token, chance in taken if (row := rows[place]) is not None]

    def settle(at: Sequence[int]) -> None:
        """Count the tokens given at some places, and free those whose rows have ended."""
        over = _ended(at, rows, made, max_tokens, ended)
        if over:
            places.leave(over)

    while True:
        while queue and (at := [place for place in everywhere if rows[place] is None][: len(queue)]):
            numbers = [queue.popleft() for _ in at]
            if sampling.reads:
                begun = [prompts[number] for number in numbers]
                texts = entered(texts, at, Prefixes.begun(begun, start, device, ends=ends, most=max_tokens))
            logits = places.enter(at, numbers)
            for place, number in zip(at, numbers, strict=True):
                rows[place], made[place] = number, 0
            numbers_B[torch.tensor(at, device=device)] = torch.tensor(numbers, device=device)
            yield given(at, logits)
            settle(at)
        if rows.count(None) == len(rows):
            return
        yield given(everywhere, places.advance(pending))
        settle(everywhere)


def entered(texts: Prefixes | None, at: Sequence[int], fresh: Prefixes) -> Prefixes:
    """The texts at all places, some of which are new; the first ones fill all places."""
    if texts is None:
        return fresh
    texts.put(at, fresh)
    return texts


def _ended(
    at: Sequence[int], rows: list[int | None], made: list[int], max_tokens: int, ended: Callable[[int], bool]
) -> list[int]:
    """Count a token at each of some places; those whose rows have ended hold none from now on."""
    over = list[int]()
    for place in at:
        row = rows[place]
        if row is None:
            continue
        made[place] += 1
        if made[place] == max_tokens or ended(row):
            rows[place] = None
            over.append(place)
    return over


def _index(made: Sequence[int]) -> int | Sequence[int]:
    """The number of the next token of every row: one, where all are at the same."""
    return made[0] if made.count(made[0]) == len(made) else made
