"""Classification of texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from torch import Tensor

from anyformer.data import Corpus, Data, DataError, Labelled, RecordBatch, Specials, Table
from anyformer.data.columns import padded
from anyformer.data.packing import Ints
from anyformer.model import Architecture, Transformer
from anyformer.objectives.examples import Examples
from anyformer.objectives.objective import Partners, Setting, Totals
from anyformer.objectives.records import RecordObjective
from anyformer.objectives.requirements import needs_one_sequence
from anyformer.objectives.token_loss import TokenObjective
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Auxiliary


class ClassificationObjective(RecordObjective, TokenObjective):
    """Cross-entropy of the class of a text: -log softmax(logits)[class].

    The logits are those of a head that pools (`head.pool`, `head.outputs`: the number of classes); of a head that does not,
    those
    of the text's last token, as in a decoder.
    """

    reads: ClassVar[type[Data]] = Labelled
    kind: Literal["classification"] = "classification"
    frame: bool = True
    """Put `[CLS]` before and `[SEP]` after each text."""

    def special(self, length: int) -> Specials:
        return Specials(roles=("cls", "sep") if self.frame else ())

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture without a number of logits of its own."""
        needs_one_sequence("classification", architecture)
        head = architecture.head
        if head is None or not isinstance(head.outputs, int):
            raise ValueError(
                "the classification objective needs a logit per class: set head = {outputs = the number of classes}, with "
                "pool = 'first' or 'mean' for an encoder"
            )

    def check_corpus(self, corpus: Corpus, setting: Setting) -> None:
        if not corpus.names["label"]:
            raise DataError("the data has no class: every record needs a label")

    def lengths(self, table: Table, setting: Setting) -> Ints:
        return table.lengths("text") + (2 if self.frame else 0)

    def examples(self, batch: RecordBatch, setting: Setting) -> Examples:
        tokenizer = setting.tokenizer
        first, last = ([tokenizer.special("cls")], [tokenizer.special("sep")]) if self.frame else ([], [])
        texts = [[*first, *record["text"].tolist(), *last] for (record,) in batch.records]
        tokens = torch.from_numpy(padded(texts, setting.length, -1))
        targets = torch.tensor([int(record["label"]) for (record,) in batch.records])
        counts = torch.ones(len(targets), dtype=torch.float64)
        return Examples(tokens.clamp(min=0), targets, None, torch.from_numpy(batch.rows), padding=tokens < 0, counts=counts)

    def counted(self, examples: Examples) -> Tensor | None:
        return None if examples.padding is None else ~examples.padding

    def logits(self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary) -> Tensor:
        logits: Tensor = model(examples.tokens, padding=examples.padding, noise=noise, auxiliary=auxiliary)
        return logits if logits.dim() == 2 else at_last(logits, examples.padding)

    def statistics(self, model: Transformer, examples: Examples, auxiliary: Auxiliary, partners: Partners) -> dict[str, Tensor]:
        logits = self.logits(model, examples, None, auxiliary)
        pairs = examples.targets * logits.shape[-1] + logits.argmax(-1)
        return {
            "loss": self.without_penalties.token_loss(logits, examples),
            # Element (i, j): texts of class i that are taken for class j.
            "confusion": torch.bincount(pairs, minlength=logits.shape[-1] ** 2).view(-1, logits.shape[-1]),
        }

    def metrics(self, totals: Totals, names: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
        confusion = totals["confusion"]
        right, real, said = confusion.diagonal(), confusion.sum(1), confusion.sum(0)
        f1 = 2 * right / (real + said).clamp(min=1)
        return {"accuracy": float(right.sum() / real.sum().clamp(min=1)), "macro_f1": float(f1[real + said > 0].mean())}


def at_last(x: Tensor, padding_BT: Tensor | None) -> Tensor:
    """(B, T, ...) -> (B, ...): the last position of each row that is no padding."""
    if padding_BT is None:
        return x[:, -1]
    positions_BT = torch.where(padding_BT, -1, torch.arange(x.shape[1], device=x.device))
    return x[torch.arange(len(x), device=x.device), positions_BT.amax(1)]
