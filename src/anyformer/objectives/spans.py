"""Extractive question answering: where in a text the answer begins and ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from anyformer.data import IGNORED, AnswerSpans, Data, RecordBatch, RecordTable
from anyformer.data.packing import Ints
from anyformer.describe import Count
from anyformer.model import Architecture
from anyformer.model.loss import token_losses
from anyformer.model.transformer import Transformer
from anyformer.objectives.aspects import SampleSizes
from anyformer.objectives.examples import Examples
from anyformer.objectives.feed import Feed
from anyformer.objectives.objective import Partners, Setting, Totals
from anyformer.objectives.records import RecordObjective
from anyformer.objectives.sequences import FRAME, around, outputs, sequences
from anyformer.operations import Shape
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Auxiliary
from anyformer.requirements.needs import needs_one_sequence
from anyformer.text import Specials


class SpansObjective(RecordObjective):
    """Half the cross-entropy of the answer's first position and half that of its last, in a row of
    question and context as the tokenizer frames a pair: `[CLS] question [SEP] context [SEP]`.

    The two logits of each position are softmaxed over the row's positions. A long context is read in windows that overlap by
    `overlap` tokens; a window without the whole answer answers with `[CLS]` (Devlin et al. 2019, arXiv 1810.04805, section 4.3;
    arXiv 1606.05250).
    """

    reads: ClassVar[type[Data]] = AnswerSpans
    kind: Literal["spans"] = "spans"
    windows: Count = 1
    """Windows of a question at most; a question that needs more is left out. Each takes a row, needed or not."""
    overlap: Count = 32
    """Tokens of the context that a window shares with the one before."""
    longest: Count = 30
    """Tokens of an answer at most, when one is chosen."""
    unanswerable: bool = False
    """Whether the context may lack the answer, which is then said where `[CLS]` scores higher than any answer (SQuAD 2.0)."""

    def special(self, length: int) -> Specials:
        return FRAME

    @property
    def sizes(self) -> SampleSizes:
        return SampleSizes(self.windows, check=self._check_sizes)

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture that does not give two logits at every position."""
        needs_one_sequence("spans", architecture)
        head = architecture.head
        if head is None or head.outputs != 2 or head.pool is not None:
            raise ValueError(
                "the spans objective needs two logits at every position, for the first and the last token of an answer: set "
                "head = {outputs = 2}"
            )

    def _check_sizes(self, length: int, batch: int, accumulation: int) -> None:
        if length <= self.overlap + 4 and self.windows > 1:
            raise ValueError(f"windows of length = {length} that share overlap = {self.overlap} tokens do not get on: lower it")

    def lengths(self, table: RecordTable, setting: Setting) -> Ints:
        """T where the windows of a question suffice, else more than T."""
        question, context = table.lengths("question"), table.lengths("context")
        frame = around(setting.tokenizer, 2, frame=True)
        room = setting.length - frame.count - question
        covered = room + (self.windows - 1) * np.maximum(room - self.overlap, 0)
        whole = question + context + frame.count
        fits = (room > 0) & (context <= covered)
        taken = np.where(fits, np.minimum(whole, setting.length), np.maximum(whole, setting.length + 1))
        return np.asarray(taken, dtype=np.int64)

    def examples(self, batch: RecordBatch, setting: Setting) -> Examples:
        """`targets` (B W, 2): first and last position; `facts` (B W, 2): the context's first position, and that behind it."""
        texts, targets, facts, frame = [], [], [], around(setting.tokenizer, 2, frame=True)
        for (record,) in batch.records:
            question, context = record["question"], record["context"]
            room = setting.length - frame.count - len(question)
            windows = windows_of(len(context), room, self.overlap)
            for number in range(self.windows):
                window = windows[min(number, len(windows) - 1)]
                begin = frame.begins([len(question), window.stop - window.start])[1]
                texts.append([question, context[window.start : window.stop]])
                asked = number < len(windows)
                targets.append(_target(record["answer"].tolist(), window, begin) if asked else (IGNORED, IGNORED))
                facts.append((begin, begin + window.stop - window.start))
        given = sequences(texts, setting.length, setting.tokenizer, frame=True)
        places = torch.tensor(targets)
        counts = (places[:, 0] != IGNORED).view(-1, self.windows).sum(1).double()
        return Examples(
            given.tokens, places, None, torch.from_numpy(batch.rows), padding=given.padding, types=given.types, counts=counts,
            facts=torch.tensor(facts),
        )  # fmt: skip

    def made_up(self, architecture: Architecture, data: Data, shape: Shape) -> Examples:
        made = super().made_up(architecture, data, shape)
        places, types = (torch.zeros(shape.batch, size, dtype=torch.int64) for size in (2, shape.length))
        return replace(made, targets=places, types=types)

    def signal(
        self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary, partners: Partners
    ) -> Tensor:
        return self._loss(self._logits(model, examples, noise, auxiliary), examples)

    def statistics(self, model: Transformer, examples: Examples, auxiliary: Auxiliary, partners: Partners) -> dict[str, Tensor]:
        logits = self._logits(model, examples, None, auxiliary)
        said = self._chosen(logits, examples)
        exact, f1 = 0.0, 0.0
        for question, answer in enumerate(said):
            real = _real(examples, range(question * self.windows, (question + 1) * self.windows))
            exact += real == answer
            f1 += overlap_f1(real, answer)
        return {
            "loss": self._loss(logits, examples),
            "questions": torch.tensor(len(said)), "exact": torch.tensor(exact), "f1": torch.tensor(f1),
        }  # fmt: skip

    def metrics(self, totals: Totals, names: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
        """Shares of the answers that are exactly right, and the mean F1 of their tokens, over questions (SQuAD's two)."""
        questions = totals["questions"].clamp(min=1)
        return {"exact_match": float(totals["exact"] / questions), "f1": float(totals["f1"] / questions)}

    def baseline(self, training: Feed, steps: int, held_out: Feed, windows: int, outputs: int) -> tuple[str, float] | None:
        """The loss of giving each position of the context the same probability."""
        sums = counts = 0.0
        for examples in held_out.once(windows):
            assert examples.facts is not None, "made above"
            asked = examples.targets[:, 0] != IGNORED
            sizes = (examples.facts[:, 1] - examples.facts[:, 0] + 1).double()
            sums, counts = sums + float(sizes[asked].log().sum()), counts + examples.count
        return ("any place of the context or none alike", sums / counts) if counts else None

    def _logits(self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary) -> Tensor:
        """(B W, T, 2) fp32; no probability on padding."""
        logits = outputs(model, examples, noise and noise.of_each(self.windows), auxiliary).float()
        return logits if examples.padding is None else logits.masked_fill(examples.padding[:, :, None], float("-inf"))

    def _loss(self, logits_BT2: Tensor, examples: Examples) -> Tensor:
        losses, _ = token_losses(logits_BT2.mT, examples.targets)
        return losses.sum() / 2

    def _chosen(self, logits_BT2: Tensor, examples: Examples) -> list[list[int]]:
        """The tokens of the likeliest answer to each question, over all of its windows; none where there is said to be none."""
        assert examples.facts is not None, "made above"
        first, behind = examples.facts[:, :1], examples.facts[:, 1:]
        places = torch.arange(logits_BT2.shape[1], device=logits_BT2.device)
        context_BT = (places >= first) & (places < behind)
        start_BT, end_BT = logits_BT2.masked_fill(~context_BT[:, :, None], float("-inf")).unbind(-1)
        gap_TT = places[None] - places[:, None]
        scores_BTT = start_BT[:, :, None] + end_BT[:, None, :]
        scores_BTT = scores_BTT.masked_fill((gap_TT < 0) | (gap_TT >= self.longest), float("-inf"))
        none_B = logits_BT2[:, 0].sum(-1)
        best_B, place_B = scores_BTT.flatten(1).max(1)
        answers: list[list[int]] = []
        for begin in range(0, len(best_B), self.windows):
            row = begin + int(best_B[begin : begin + self.windows].argmax())
            if self.unanswerable and float(none_B[begin : begin + self.windows].min()) > float(best_B[row]):
                answers.append([])
                continue
            start, end = divmod(int(place_B[row]), logits_BT2.shape[1])
            answers.append(examples.tokens[row, start : end + 1].tolist())
        return answers


def _target(answer: list[int], window: TokenSpan, begin: int) -> tuple[int, int]:
    """First and last position of the answer in its row, `begin` that of the window; (0, 0) where it is not all there."""
    first, last = answer
    if first < window.start or last >= window.stop or first < 0:
        return 0, 0
    return begin + first - window.start, begin + last - window.start


def _real(examples: Examples, rows: range) -> list[int]:
    """The tokens of the true answer: of a row that has it whole; empty without one."""
    for row in rows:
        first, last = examples.targets[row].tolist()
        if first > 0:
            return list(examples.tokens[row, first : last + 1].tolist())
    return []


def overlap_f1(real: list[int], said: list[int]) -> float:
    """F1 of the tokens of two answers, each a bag; 1 for two empty ones (SQuAD 2.0)."""
    if not real or not said:
        return float(real == said)
    shared = (Counter(real) & Counter(said)).total()
    return 2 * shared / (len(real) + len(said))


class TokenSpan(NamedTuple):
    """Tokens start ... stop - 1 of a text."""

    start: int
    stop: int


def windows_of(length: int, size: int, overlap: int) -> list[TokenSpan]:
    """Windows of at most `size` tokens that cover a text, each beginning `size - overlap` after the one before."""
    found = [TokenSpan(0, min(size, length))]
    while found[-1].stop < length:
        start = found[-1].start + max(size - overlap, 1)
        found.append(TokenSpan(start, min(start + size, length)))
    return found
