"""The base of objectives whose source is a text made worse, and whose target is what it lacks, or the text."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from anyformer.data import IGNORED, Corpus, Data
from anyformer.model import Architecture, Transformer
from anyformer.objectives.examples import Examples
from anyformer.objectives.requirements import needs_hidden_targets, needs_source, needs_token_logits, needs_whole_rows
from anyformer.objectives.seq2seq import target_logits
from anyformer.objectives.text import TextObjective
from anyformer.objectives.token_loss import TokenObjective
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Auxiliary
from anyformer.text import Tokenizer
from anyformer.text.sides import Sides


class TextToText(TextObjective, TokenObjective):
    """Source and target are made of one text, each framed as the tokenizer does it."""

    two_inputs: ClassVar[bool] = True

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture without a source of text."""
        needs_source(self.kind, architecture)
        needs_token_logits(self.kind, architecture)
        needs_hidden_targets(self.kind, architecture)

    def check_data(self, data: Data) -> None:
        super().check_data(data)
        needs_whole_rows(self.kind, data)

    def beyond(self, tokenizer: Tokenizer) -> int:
        return Sides.of_running_text(tokenizer).beyond

    def counted(self, examples: Examples) -> Tensor | None:
        return examples.targets != IGNORED

    def logits(self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary) -> Tensor:
        return target_logits(model, examples, noise, auxiliary)

    def prompt(self, corpus: Corpus, number: int = 0) -> str:
        """None: a whole text is its own answer, or has no gap to answer to."""
        return ""
