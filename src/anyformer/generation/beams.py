"""Beam search: several beginnings of a text at once, of which those with the greatest probability go on.

Step by step as transformers' `generate(num_beams=...)` does it: beams of a prompt compete with their ends, finished ones are
kept by their log-probability over length^penalty, and the decode state follows the beams that go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from anyformer.describe import Value
from anyformer.generation.checks import check
from anyformer.generation.decode import Step, begin, decode, pad_left
from anyformer.generation.prefixes import Prefixes
from anyformer.generation.sampling import Sampling
from anyformer.model.transformer import Transformer
from anyformer.parts.call.stack_state import StackState
from anyformer.parts.images.encoder_module import Images

LOST = -1e9
"""Added to the score of what must not be chosen."""


class Beams(Value):
    """A search for the likeliest text among several; draws instead of the likeliest where `Sampling` draws."""

    count: Annotated[int, Field(ge=2)]
    """Beginnings that are kept of each prompt."""
    length_penalty: float = 1.0
    """A finished text's score is its log-probability over its new tokens to this power: above 0 prefers longer ones."""
    early_stopping: bool | Literal["never"] = False
    """True ends as soon as `count` texts are finished; False, when none that goes on is likely to become better; "never", when
    none can."""

    def rows(self, prompts: int) -> int:
        """Rows whose decode state a search holds: all beams, and again while they change places."""
        return 2 * self.count * prompts


@dataclass(frozen=True)
class Hypothesis:
    """A finished text: its new tokens with the end, if it has one, and its score."""

    tokens: tuple[int, ...]
    score: float


@torch.inference_mode()
def searched(
    model: Transformer,
    prompts: Sequence[Sequence[int]],
    beams: Beams,
    *,
    answers: int = 1,
    sampling: Sampling,
    max_tokens: int,
    ends: Sequence[int] = (),
    start: int | None = None,
    source: Tensor | None = None,
    images: Images | None = None,
    step: Step = decode,
    multiple: int = 1,
    stops: Callable[[Sequence[int]], bool] | None = None,
    over: Callable[[], bool] | None = None,
    first: int = 0,
) -> list[list[Hypothesis]]:
    """The best `answers` texts of each prompt, the best first.

    `stops`: whether new tokens end a text that none of `ends` does; `over`: whether the search should end before its time;
    `first`: the number of the first prompt, by which draws are keyed. Other arguments as in `continued`.
    """
    count = beams.count
    check(model, prompts, max_tokens, start, source, images=images, rows=beams.rows(len(prompts)))
    device = model.device
    texts = Prefixes.begun(prompts, start, device, ends=ends, most=max_tokens)
    texts.keep = max(2, 1 + len(ends))
    tokens, padding = pad_left(prompts, device)
    logits, state, grow, again = begin(
        model, tokens, padding, max_tokens=max_tokens, start=start, source=source, images=images, step=step, multiple=multiple
    )  # fmt: skip
    each = torch.arange(len(prompts), device=device).repeat_interleave(count)
    logits, state, texts = logits[each], state.fork(each), texts.fork(each.tolist())
    again.reorder(each)
    search, stopping = _BeamSearch(beams, len(prompts), max_tokens, device), torch.tensor(list(ends), device=device)
    for index in range(max_tokens):
        scores = sampling.scores(logits.float().log_softmax(-1), texts, index)
        found = _best(search, scores, sampling, texts.keep, index, first)
        ending = _ending(found, stopping, index + 1 == max_tokens, stops)
        parents, chosen = search.advance(found, ending)
        if search.over or index + 1 == max_tokens or (over is not None and over()):
            break
        rows = (parents + count * torch.arange(len(prompts), device=device)[:, None]).flatten()
        if sampling.reads:
            texts = texts.fork(rows.tolist())
            texts.add(chosen.flatten())
        state = _reordered(grow(state, batch=len(rows), count=1), rows)
        state.slots.reserve(1, multiple)
        again.reorder(rows)
        logits = again(model, chosen.flatten(), state)
    return search.best(answers)


def _reordered(state: StackState, rows: Tensor) -> StackState:
    """The state with other rows in the same memory, so that what was recorded with it still fits."""
    state.put(torch.arange(len(rows), device=rows.device), state.fork(rows))
    return state


@dataclass(frozen=True)
class _Found:
    """The continuations of each prompt that are looked at, (B, n): log-probabilities, tokens, the beam each goes on, and the
    new tokens of each with its last, (B, n, T)."""

    scores: Tensor
    tokens: Tensor
    parents: Tensor
    texts: Tensor


class _BeamSearch:
    """The beams of every prompt, and its best finished texts."""

    def __init__(self, beams: Beams, batch: int, most: int, device: torch.device) -> None:
        self.beams, self.most, self.made = beams, most, 0
        # Only the first beam counts at first, or all would say the same.
        self.scores = torch.full((batch, beams.count), LOST, device=device)
        self.scores[:, 0] = 0
        self.texts = torch.zeros(batch, beams.count, 0, dtype=torch.int64, device=device)
        self.finished = torch.zeros(batch, beams.count, dtype=torch.bool, device=device)
        self.final = torch.full((batch, beams.count), LOST, device=device)
        self.done = [[Hypothesis((), LOST)] * beams.count for _ in range(batch)]
        self.improvable = torch.ones(batch, 1, dtype=torch.bool, device=device)
        self.over = False

    def advance(self, found: _Found, ending: Tensor) -> tuple[Tensor, Tensor]:
        """Take the beams that go on, and keep those that finish; the parent of each beam, and its new token, (B, count)."""
        self.made += 1
        running = found.scores + ending.float() * LOST
        at = running.topk(self.beams.count).indices
        self._finish(found, ending)
        self.scores, self.texts = running.gather(1, at), _rows(found.texts, at)
        self._judge(ending)
        return found.parents.gather(1, at), found.tokens.gather(1, at)

    def best(self, answers: int) -> list[list[Hypothesis]]:
        """The best finished texts of each prompt."""
        return [done[:answers] for done in self.done]

    def _finish(self, found: _Found, ending: Tensor) -> None:
        """Keep the best of the texts that were finished and of those that finish now."""
        top = torch.arange(ending.shape[1], device=ending.device) < self.beams.count
        now, full = ending & top, self.finished.all(1, keepdim=True) & (self.beams.early_stopping is True)
        scores = found.scores / self.made**self.beams.length_penalty
        scores = scores + full * LOST + ~self.improvable * LOST + ~now * LOST
        merged, flags = torch.cat([self.final, scores], 1), torch.cat([self.finished, now], 1)
        at = merged.topk(self.beams.count).indices
        self.final, self.finished = merged.gather(1, at), flags.gather(1, at)
        texts, values = found.texts.tolist(), self.final.tolist()
        for row, places in enumerate(at.tolist()):
            held = self.done[row]
            self.done[row] = [
                held[place] if place < len(held) else Hypothesis(tuple(texts[row][place - len(held)]), value)
                for place, value in zip(places, values[row], strict=True)
            ]

    def _judge(self, ending: Tensor) -> None:
        """Whether any prompt can still get a better text."""
        never = self.beams.early_stopping == "never" and self.beams.length_penalty > 0
        length = self.most if never else self.made
        best = self.scores[:, :1] / length**self.beams.length_penalty
        worst = torch.where(self.finished, self.final.amin(1, keepdim=True), LOST)
        self.improvable = self.improvable & (best > worst).any(1, keepdim=True)
        full = bool(self.finished.all()) and self.beams.early_stopping is True
        self.over = not bool(self.improvable.any()) or full or bool(ending.all())


def _best(search: _BeamSearch, scores: Tensor, sampling: Sampling, keep: int, index: int, first: int) -> _Found:
    """The likeliest continuations of all beams of each prompt, `keep` per beam, or as many drawn without replacement."""
    batch, count = search.scores.shape
    total = (scores.view(batch, count, -1) + search.scores[:, :, None]).flatten(1)
    width = min(keep * count, total.shape[1])
    if sampling.greedy:
        values, at = total.topk(width)
    else:
        at = sampling.draw_several(total.softmax(-1), torch.arange(first, first + batch, device=total.device), index, width)
        values = total.gather(1, at)
    vocabulary = total.shape[1] // count
    parents, tokens = at // vocabulary, at % vocabulary
    return _Found(values, tokens, parents, torch.cat([_rows(search.texts, parents), tokens[:, :, None]], 2))


def _ending(found: _Found, ends: Tensor, last: bool, stops: Callable[[Sequence[int]], bool] | None) -> Tensor:
    """Which continuations are finished, (B, n)."""
    ending = torch.isin(found.tokens, ends) | last
    if stops is None:
        return ending
    said = [[stops(text) for text in texts] for texts in found.texts.tolist()]
    return ending | torch.tensor(said, device=ending.device)


def _rows(texts_BNT: Tensor, at_Bn: Tensor) -> Tensor:
    """The texts at some places of each prompt."""
    return texts_BNT.gather(1, at_Bn[:, :, None].expand(*at_Bn.shape, texts_BNT.shape[2]))
