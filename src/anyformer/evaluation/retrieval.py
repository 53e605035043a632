"""Finding each text's counterpart among those of all others, by the similarity of their embeddings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from anyformer.data.columns import padded
from anyformer.data.fields import text_field
from anyformer.data.row import BadRecord
from anyformer.data.rows import rows
from anyformer.describe import UserError, read_data
from anyformer.evaluation.intervals import Interval, share
from anyformer.evaluation.likelihood import BATCH_TOKENS
from anyformer.evaluation.subject import Subject
from anyformer.model.transformer import Transformer
from anyformer.objectives.sequences import around
from anyformer.parts.embedding.head_module import at_last
from anyformer.requirements.needs import needs_one_sequence

Pool = Literal["first", "mean", "last"]
AT = (1, 5)
"""Ranks up to which a counterpart counts as found."""


@dataclass(frozen=True)
class Retrieval:
    """`ranks` (texts,): the place of each text's counterpart among the `candidates`, from 1; one as near stands before it."""

    ranks: tuple[int, ...]
    candidates: int

    def recall(self, most: int) -> Interval:
        """The share of texts whose counterpart is among the `most` nearest."""
        return share(sum(rank <= most for rank in self.ranks), len(self.ranks))

    @property
    def mean_reciprocal_rank(self) -> float:
        """MRR = mean_i 1 / rank_i (Voorhees 1999)."""
        return sum(1 / rank for rank in self.ranks) / len(self.ranks)


def read_pairs(path: Path) -> list[tuple[str, str]]:
    """The texts and their counterparts: fields `text` and `positive` of a file of records."""
    found = [(text_field(row, "text"), text_field(row, "positive")) for row in rows(str(path))]
    if not found:
        raise BadRecord(str(path), "holds no pair", "give records with text and positive")
    return found


def retrieve(
    subject: Subject,
    pairs: Sequence[tuple[str, str]],
    pool: Pool | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> Retrieval:
    """The rank of each text's counterpart by cosine similarity, among the different counterparts of the whole set.

    `pool`: of positions, where the head does not pool; by default what the run's objective says, else the mean. `progress` is
    called with the texts embedded so far.
    """
    candidates = list(dict.fromkeys(positive for _, positive in pairs))
    texts = [text for text, _ in pairs]
    embedded = embeddings(subject, [*texts, *candidates], pool, progress)
    similar = embedded[: len(texts)] @ embedded[len(texts) :].T
    number = {text: place for place, text in enumerate(candidates)}
    own = torch.tensor([number[positive] for _, positive in pairs])
    nearest = similar.gather(1, own[:, None])
    return Retrieval(tuple((similar >= nearest).sum(1).tolist()), len(candidates))


@torch.inference_mode()
def embeddings(
    subject: Subject,
    texts: Sequence[str],
    pool: Pool | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> Tensor:
    """The embeddings of texts, of length 1: (texts, D) in fp32 on the CPU."""
    architecture = subject.model.architecture
    try:
        needs_one_sequence("contrastive", architecture)
    except ValueError as error:
        raise UserError(f"texts cannot be embedded: {error}") from None
    said = _said(subject)
    how, framed = pool or said.get("pool", "mean"), said.get("frame", True)
    tokens = [_row(subject, text, framed=framed) for text in texts]
    order = sorted(range(len(tokens)), key=lambda number: -len(tokens[number]))
    found: list[Tensor | None] = [None] * len(texts)
    done = 0
    while done < len(order):
        rows_each = max(1, BATCH_TOKENS // len(tokens[order[done]]))
        batch = order[done : done + rows_each]
        for number, each in zip(batch, _embedded(subject.model, [tokens[number] for number in batch], how), strict=True):
            found[number] = each
        done += len(batch)
        progress(done)
    return torch.stack([each for each in found if each is not None])


def _said(subject: Subject) -> dict[str, object]:
    """The fields of the objective in the run's file."""
    if subject.run is None:
        return {}
    table = read_data(subject.run / "run.toml").get("objective")
    return table if isinstance(table, dict) else {}


def _row(subject: Subject, text: str, *, framed: object) -> list[int]:
    tokenizer = subject.text
    frame = around(tokenizer, 1, bool(framed))
    tokens = tokenizer.encode(text)[: max(1, subject.length - frame.count)]
    return frame.framed([tokens]).tokens or [tokenizer.end]


def _embedded(model: Transformer, batch: Sequence[Sequence[int]], pool: object) -> Tensor:
    width = max(map(len, batch))
    given = torch.from_numpy(padded(batch, width, -1)).to(model.device)
    padding = given < 0
    some = padding if bool(padding.any()) else None
    head = model.architecture.head
    if head is not None and head.pool is not None and head.outputs == "features":
        x_BD = model(given.clamp(min=0), padding=some)
    else:
        x_BTD = model.features(given.clamp(min=0), padding=some)
        x_BD = _pooled(x_BTD, padding, pool)
    return F.normalize(x_BD.float(), dim=-1).cpu()


def _pooled(x_BTD: Tensor, padding_BT: Tensor, pool: object) -> Tensor:
    match pool:
        case "first":
            return x_BTD[:, 0]
        case "last":
            return at_last(x_BTD, padding_BT)
    valid_BT1 = (~padding_BT)[..., None]
    return (x_BTD.float() * valid_BT1).sum(1) / valid_BT1.sum(1)
