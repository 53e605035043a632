"""Connectionist temporal classification: symbols of a transcript at positions of a sound."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from anyformer.data import IGNORED, Corpus, Data, PackedRows, RecordBatch, RecordTable
from anyformer.data.columns import padded
from anyformer.data.packing import Ints
from anyformer.describe import UserError
from anyformer.generation.sampling import GREEDY, Sampling
from anyformer.generation.transcribing import best_path, blank_of, spoken_text
from anyformer.model import Architecture
from anyformer.model.ctc_loss import ctc_losses
from anyformer.model.transformer import Transformer
from anyformer.objectives.aspects import SampleSizes
from anyformer.objectives.examples import Examples
from anyformer.objectives.feed import Feed
from anyformer.objectives.frequencies import frequency_loss
from anyformer.objectives.objective import Partners, Setting
from anyformer.objectives.sounds import SoundPositions
from anyformer.objectives.transcript_rates import constant_answer
from anyformer.objectives.transcripts import TranscriptObjective
from anyformer.operations import Shape
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Auxiliary
from anyformer.requirements.usual import BY_KIND
from anyformer.text import DataError, Tokenizer


class CTCObjective(SoundPositions, TranscriptObjective):
    """Connectionist temporal classification: -log sum_(paths of y) prod_t p_t(path_t).

    Graves et al. 2006, doi 10.1145/1143844.1143891.

    An encoder hears a sound of T positions and gives the symbols and a blank at each. A path has one of them per position, and
    is one of y if y is left when repetitions are joined and blanks left out. The blank is the tokenizer's token that fills
    rows, else the number behind all of its tokens. The loss is told per symbol of y. A sound with fewer positions than y
    needs, which are its symbols and one blank between equal ones, is left out.
    """

    kind: Literal["ctc"] = "ctc"

    @property
    def sizes(self) -> SampleSizes:
        # In fp32 the logarithm of p, its gradient, and that of the logits as it is given back.
        return replace(super().sizes, loss_bytes=lambda logits, each: 3 * logits // each * 4)

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture that does not turn a sound into logits of symbols at every position."""
        BY_KIND["ctc"].check(architecture)

    def check_corpus(self, corpus: Corpus, setting: Setting) -> None:
        blank, outputs = blank_of(corpus.tokenizer), None if setting.architecture is None else setting.architecture.outputs
        if outputs is not None and max(blank + 1, corpus.tokenizer.vocab_size) > outputs:
            raise UserError(
                f"the tokenizer has {corpus.tokenizer.vocab_size} tokens, the blank is number {blank}, and the head gives "
                f"{outputs} logits: set architecture.head.outputs = {max(blank + 1, corpus.tokenizer.vocab_size)}"
            )

    def lengths(self, table: RecordTable, setting: Setting) -> Ints:
        """(records,): positions of every sound."""
        assert setting.architecture is not None, "the embedding says how many positions a sound has"
        return self.positions_of_each(setting.architecture, table)

    def rows(self, table: RecordTable, setting: Setting) -> PackedRows:
        """A row per sound that fits, and has as many positions as its transcript needs."""
        lengths = self.lengths(table, setting)
        needed = np.array([needed_positions(table.columns["text"][row]) for row in range(len(table))], dtype=np.int64)
        if len(table) and bool((needed > lengths).all()):
            first = int((needed - lengths).argmin())
            raise DataError(
                f"every sound of the {table.name} split has fewer positions than its transcript has symbols, the nearest "
                f"{lengths[first]} for {needed[first]}: hear more positions per second (objective.features.hop), or take a "
                "tokenizer of longer symbols"
            )
        return PackedRows.single(np.flatnonzero((lengths <= setting.length) & (needed <= lengths)))

    def examples(self, batch: RecordBatch, setting: Setting, training: bool = False) -> Examples:
        """`targets` (B, T): the symbols of the transcripts; `facts` (B, 1): the blank."""
        target_BT = torch.from_numpy(padded([record["text"] for (record,) in batch.records], setting.length, IGNORED))
        tokens, padding = self.heard(batch, setting, training)
        blank = torch.full((len(target_BT), 1), blank_of(setting.tokenizer))
        return Examples(tokens, target_BT, None, torch.from_numpy(batch.rows), padding=padding, facts=blank)

    def made_up(self, architecture: Architecture, data: Data, shape: Shape) -> Examples:
        blank = torch.full((shape.batch, 1), architecture.outputs - 1)
        return replace(super().made_up(architecture, data, shape), facts=blank, counts=None)

    def counted(self, examples: Examples) -> Tensor | None:
        return None

    def signal(
        self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary, partners: Partners
    ) -> Tensor:
        return self.loss(model, examples, self.logits(model, examples, noise, auxiliary))

    def statistics(self, model: Transformer, examples: Examples, auxiliary: Auxiliary, partners: Partners) -> dict[str, Tensor]:
        return {"loss": self.loss(model, examples, self.logits(model, examples, None, auxiliary))}

    def transcripts(
        self,
        model: Transformer,
        sounds: Tensor,
        padding: Tensor | None,
        tokenizer: Tokenizer,
        *,
        most: int,
        sampling: Sampling = GREEDY,
    ) -> list[str]:
        """What the best path spells."""
        logits = model(sounds, padding=padding)
        said = best_path(logits, heard_positions(model, padding, logits), blank_of(tokenizer))
        return [spoken_text(tokenizer, tokens[:most]) for tokens in said]

    def baseline(self, training: Feed, steps: int, held_out: Feed, windows: int, outputs: int) -> tuple[str, float] | None:
        """The frequencies of the symbols, of a model that is told how many there are: it need not tell where they stand."""
        loss = frequency_loss(training, steps, held_out, windows, outputs)
        return f"the frequencies of the symbols, their number known ({constant_answer(training, held_out)})", loss

    def logits(self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary) -> Tensor:
        """(B, T, V)."""
        result: Tensor = model(examples.tokens, **self.inputs(model, examples), noise=noise, auxiliary=auxiliary)
        return result

    def loss(self, model: Transformer, examples: Examples, logits_BTV: Tensor) -> Tensor:
        """The loss summed over the rows: a 0-d tensor in fp32."""
        assert examples.facts is not None, "made above"
        heard_B = heard_positions(model, examples.padding, logits_BTV)
        return ctc_losses(logits_BTV, examples.targets, heard_B, examples.facts).sum()


def heard_positions(model: Transformer, padding: Tensor | None, logits_BTV: Tensor) -> Tensor:
    """(B,) the positions of every sound, without those of padding."""
    hidden_BT = model.architecture.embedding.padding(padding)
    if hidden_BT is None:
        return torch.full((len(logits_BTV),), logits_BTV.shape[1], device=logits_BTV.device)
    return (~hidden_BT).sum(1)


def needed_positions(symbols: Ints) -> int:
    """The fewest positions of a path: the symbols, and a blank between equal ones."""
    return len(symbols) + int((symbols[1:] == symbols[:-1]).sum())
