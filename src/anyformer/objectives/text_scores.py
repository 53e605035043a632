"""How texts that a model wrote compare with those that were wanted: exact matches, BLEU and chrF, as sums over texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec

import torch
from torch import Tensor

from anyformer.objectives.feed import Feed, RecordFeed
from anyformer.objectives.objective import Totals

_MOST = 100_000
"""Texts of which the commonest is found."""


def text_sums(said: Sequence[str], wanted: Sequence[str]) -> dict[str, Tensor]:
    """Sums for `text_scores` over pairs of texts, spaces around them left out: BLEU's counts and the texts' chrF by sacrebleu
    (the extra `scores`), if it is installed."""
    said, wanted = [text.strip() for text in said], [text.strip() for text in wanted]
    same = sum(one == other for one, other in zip(said, wanted, strict=True))
    sums = {"texts": torch.tensor(len(wanted)), "texts_exact": torch.tensor(same)}
    if find_spec("sacrebleu") is None:
        return sums
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    bleu, chrf = BLEU(effective_order=True), CHRF()
    parts = [bleu.sentence_score(one, [other]) for one, other in zip(said, wanted, strict=True)]
    grams = torch.tensor([[*part.counts, *part.totals, part.sys_len, part.ref_len] for part in parts], dtype=torch.float64)
    near = sum(chrf.sentence_score(one, [other]).score for one, other in zip(said, wanted, strict=True))
    return sums | {
        "texts_grams": grams.view(-1, 10).sum(0),
        "texts_chrf": torch.tensor(near, dtype=torch.float64),
    }


def text_scores(totals: Totals) -> dict[str, float]:
    """`exact_match`: the share of texts that are what was wanted. From 0 to 100, `bleu` of all texts as one corpus (Papineni et
    al. 2002), and `chrf`, the mean of that of every text (Popović 2015), as sacrebleu computes them (arXiv 1804.08771)."""
    if "texts" not in totals:
        return {}
    count = totals["texts"].clamp(min=1)
    found = {"exact_match": float(totals["texts_exact"] / count)}
    if "texts_grams" not in totals:
        return found
    from sacrebleu.metrics.bleu import BLEU

    *grams, written, wanted = totals["texts_grams"].round().long().tolist()
    bleu = BLEU.compute_bleu(correct=grams[:4], total=grams[4:], sys_len=written, ref_len=wanted)
    return found | {"bleu": bleu.score, "chrf": float(totals["texts_chrf"] / count)}


def commonest_text(training: Feed, held_out: Feed) -> str:
    """In words: the commonest text of the training records, and the share of the held-out ones that it is."""
    counts = Counter(_texts(training))
    common, _ = min(counts.items(), key=lambda item: (-item[1], item[0]))
    asked = _texts(held_out)
    return f"always {common!r}: exact match {asked.count(common) / max(1, len(asked)):.3f}"


def _texts(feed: Feed) -> list[str]:
    assert isinstance(feed, RecordFeed), "an objective on records makes such feeds"
    assert feed.tokenizer is not None, "its records have texts"
    column = feed.table.columns["text"]
    return [feed.tokenizer.decode(column[row].tolist()).strip() for row in range(min(len(column), _MOST))]
