"""What a pre-trained shape can do with held-out text: go on with it, fill in a hidden word, tell its class, sum it up.

Each is measured for every text, so that shapes are compared on the same ones. `benchmarks.shapes` trains, and calls these.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from anyformer.data import Split, spread
from anyformer.data.rows import rows
from anyformer.evaluation import (
    CandidateScores,
    EvaluationTask,
    Gap,
    Request,
    Subject,
    by_left_side,
    by_mask,
    by_sentinel,
    by_whole_text,
    filled_scores,
    scores,
    target_scores,
)
from anyformer.evaluation.measure import unit_losses
from anyformer.model.transformer import Transformer
from anyformer.objectives import Setting
from anyformer.parts.call.reports import Auxiliary
from anyformer.text import Tokenizer
from anyformer.text.pieces import pieces
from anyformer.training import Run
from anyformer.training.held_out import corpus_of

TEXT = 128
"""Tokens of a held-out text, as many as the shapes were trained on at a time; its first half is given, the rest follows."""
CANDIDATES, GAPS, EDGE = 10, 3, 16
"""Candidates of a hidden word, hidden words of a text, tokens at either end of a text of which none is hidden."""
RECORD = 160
"""Positions of a record in fine-tuning; longer ones are left out."""
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Texts:
    """Held-out texts, (texts, 128) tokens, and `gaps`, three of each text in order."""

    tokens: Ints
    gaps: tuple[Gap, ...]


def texts_of(split: Split, tokenizer: Tokenizer, count: int) -> Texts:
    """`count` windows spread evenly over a split, and the words hidden in them one at a time.

    A hidden word is one token, with a token that is no letter on either side. The other candidates are drawn from the words
    of all windows, so that frequent ones are candidates more often.
    """
    tokens = spread(split, TEXT - 1, count)
    words = np.array([text.strip().isalpha() and len(text.strip()) > 1 for text in pieces(tokenizer)])
    opens = np.array([text[:1].isalpha() for text in pieces(tokenizer)])
    closes = np.array([text[-1:].isalnum() for text in pieces(tokenizer)])
    starts = ~(opens[tokens[:, 1:-1]] & closes[tokens[:, :-2]])
    ends = ~(opens[tokens[:, 2:]] & closes[tokens[:, 1:-1]])
    whole = np.pad(words[tokens[:, 1:-1]] & starts & ends, ((0, 0), (1, 1)))
    whole[:, :EDGE] = whole[:, -EDGE:] = False
    random, pool, gaps, kept = np.random.default_rng(0), tokens[whole], [], []
    for line, places in zip(tokens, whole, strict=True):
        if places.sum() < GAPS:
            continue
        kept.append(line)
        for place in sorted(random.choice(np.flatnonzero(places), GAPS, replace=False).tolist()):
            right = int(line[place])
            others = dict.fromkeys(random.permutation(pool).tolist())
            others.pop(right)
            gaps.append(
                Gap(tuple(line[:place].tolist()), tuple(line[place + 1 :].tolist()), (right, *list(others)[: CANDIDATES - 1]))
            )
    return Texts(np.stack(kept), tuple(gaps))


def continued(shape: str, model: Transformer, tokenizer: Tokenizer, texts: Texts) -> list[float]:
    """-log p(second half | first half) of each text in nats, by the way in which each shape gives one.

    GPT and prefix as they are; T5 writes the second half as the span behind its first sentinel; BERT fills it in from left to
    right, with a mask token for each token that is not there yet.
    """
    half = TEXT // 2
    requests = [Request(tuple(line[:half]), tuple(line[half:])) for line in texts.tokens.tolist()]
    match shape:
        case "bert":
            found = filled_scores(model, requests, tokenizer)
        case "t5":
            (sentinel,) = tokenizer.sentinels(1)
            requests = [Request((*each.context, sentinel, tokenizer.end), each.continuation) for each in requests]
            found = target_scores(model, requests, (tokenizer.end, sentinel))
        case _:
            found = scores(model, requests, TEXT)
    return [round(-each.log_likelihood, 3) for each in found]


def filled(shape: str, model: Transformer, tokenizer: Tokenizer, texts: Texts) -> dict[str, list[float]]:
    """Of each text the hidden words that were chosen rightly among the candidates, and the nats of the right ones.

    `right`, `nats`: with both sides of the word read. `left_right`, `left_nats`: of decoders, by what stands before it alone.
    """
    match shape:
        case "bert":
            return _sums("", by_mask(model, texts.gaps, tokenizer))
        case "t5":
            return _sums("", by_sentinel(model, texts.gaps, tokenizer))
        case _:
            left = _sums("left_", by_left_side(model, texts.gaps, TEXT))
            return _sums("", by_whole_text(model, texts.gaps, TEXT)) | left


def _sums(name: str, guesses: Sequence[CandidateScores]) -> dict[str, list[float]]:
    right = np.array([each.right for each in guesses]).reshape(-1, GAPS).sum(1)
    nats = np.array([each.nats for each in guesses]).reshape(-1, GAPS).sum(1)
    return {f"{name}right": right.tolist(), f"{name}nats": nats.round(3).tolist()}


def write_records(word: str, fields: tuple[str, str], tokenizer: Tokenizer, folder: Path, training: int, held_out: int) -> None:
    """Records of built-in data that fit into `RECORD` positions in every shape, as files to train on and held out.

    They are spread evenly over the data; those held out are every so many-th.
    """
    kept = []
    for row in rows(word):
        texts = [str(row.values[field]) for field in fields]
        if sum(len(tokenizer.encode(text)) for text in texts) + 5 <= RECORD:
            kept.append(json.dumps(dict(zip(fields, texts, strict=True))))
    total = min(len(kept), training + held_out)
    chosen = [kept[place * len(kept) // total] for place in range(total)]
    aside = {place * total // min(held_out, total // 2) for place in range(min(held_out, total // 2))}
    for name, inside in (("train", False), ("held", True)):
        lines = [line for place, line in enumerate(chosen) if (place in aside) == inside]
        (folder / f"{word}-{name}.jsonl").write_text("\n".join(lines) + "\n")


def classified(run: Run, subject: Subject) -> list[int]:
    """Whether the class of each held-out record is told rightly; by T5, whose name of all classes is the likeliest target."""
    corpus = corpus_of(run)
    if run.objective.traits.two_inputs:
        records = [json.loads(line) for line in Path(run.data.validation_paths[0]).read_text().splitlines()]  # type: ignore[attr-defined]
        names = sorted({record["label"] for record in records})
        targets = [(*subject.text.encode(name), subject.text.end) for name in names]
        requests = [Request(tuple(subject.text.encode(record["text"])), target) for record in records for target in targets]
        found = target_scores(subject.model, requests, (subject.text.end,))
        logs = np.array([each.log_likelihood for each in found]).reshape(len(records), len(names))
        return [int(names[best] == record["label"]) for best, record in zip(logs.argmax(1), records, strict=True)]
    right: list[int] = []
    setting = Setting(corpus.tokenizer, run.length, run.seed, corpus.names, run.architecture)
    with torch.inference_mode():
        for part in run.objective.feed(run.data, corpus, setting, run.batch, held_out=True).once():
            logits = run.objective.logits(subject.model, part, None, Auxiliary())  # type: ignore[attr-defined]
            right += (logits.argmax(-1) == part.targets).int().tolist()
    return right


def summed_up(run: Run, subject: Subject) -> dict[str, list[float]]:
    """-log p(target | source) of each held-out pair in nats, and the tokens of the target, its end included."""
    units, _ = unit_losses(EvaluationTask(subject, run, corpus_of(run)))
    return {"nats": units[:, 1].round(3).tolist(), "tokens": units[:, 0].tolist()}


def by_frequencies(train: Ints, texts: Texts, vocab: int) -> dict[str, float]:
    """What the frequencies of tokens alone reach: nats per token of the second half, and the share of words chosen rightly."""
    counts = np.bincount(train, minlength=vocab) + 1.0
    logs = np.log(counts / counts.sum())
    right = [int(np.argmax(logs[list(gap.candidates)]) == 0) for gap in texts.gaps]
    return {"continued": float(-logs[texts.tokens[:, TEXT // 2 :]].mean()), "filled": float(np.mean(right))}
