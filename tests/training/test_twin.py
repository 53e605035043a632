"""One run against a naive twin: a plain PyTorch loop with Adam by its formulas, equal in losses, norms and final weights."""

from __future__ import annotations

import json
import math
import random

import pytest
import torch
import torch.nn.functional as F
from rich.console import Console

from anyformer.data import IGNORED, Batches, BytePairs, Text, prepare
from anyformer.describe import change_all
from anyformer.model import build
from anyformer.parts.call.noise import Noise
from anyformer.training import Cosine, train
from anyformer.training.journal import read_metrics

STEPS, BATCH, LENGTH, PIECES = 6, 4, 24, 2
RATE, BETAS, EPS, DECAY, CLIP, Z_LOSS, WARMUP, FLOOR = 1e-2, (0.8, 0.9), 1e-5, 0.2, 0.3, 0.05, 2, 0.1


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    """Documents of very different lengths, so that pieces of a batch have different numbers of targets."""
    path = tmp_path_factory.mktemp("twin") / "lines.jsonl"
    chance = random.Random(0)
    words = ["".join(chance.choices("abcdefgh", k=chance.randrange(1, 6))) for _ in range(60)]
    texts = [" ".join(chance.choices(words, k=chance.randrange(1, 12))) for _ in range(400)]
    path.write_text("\n".join(json.dumps({"text": text}) for text in texts))
    return path


@pytest.fixture
def run(tiny, documents):
    """Dropout everywhere, documents apart, unequal pieces, a gradient that is always clipped."""
    return change_all(
        tiny,
        {
            "steps": STEPS, "batch": BATCH, "length": LENGTH, "accumulation": PIECES, "clip": CLIP, "seed": 5,
            "data": Text(paths=(str(documents),), tokenizer=BytePairs(vocab=300), validation=0.1, isolate=True),
            "embedding.vocab": 300, "objective.z_loss": Z_LOSS, "schedule": Cosine(warmup=WARMUP, floor=FLOOR),
            "optimiser.learning_rate": RATE, "optimiser.betas": list(BETAS), "optimiser.eps": EPS,
            "optimiser.weight_decay": DECAY,
            "evaluation.every": 100, "evaluation.final_tokens": 10**6,
        },
    )  # fmt: skip


def rate(step: int) -> float:
    """Of update `step` (from 0): up in a line, then half a cosine down."""
    if step < WARMUP:
        return RATE * (step + 1) / (WARMUP + 1)
    progress = (step - WARMUP) / (STEPS - 1 - WARMUP)
    return RATE * (FLOOR + (1 - FLOOR) * (1 + math.cos(math.pi * progress)) / 2)


def losses(model, tokens, targets, documents, noise):
    """Summed cross-entropy and summed squared log Z of the valid targets."""
    logits = model(tokens, documents=documents, noise=noise)
    valid = targets != IGNORED
    return F.cross_entropy(logits[valid], targets[valid], reduction="sum"), logits[valid].logsumexp(-1).square().sum()


def plain(run, corpus):
    """The loop as a textbook has it; gives the model and (loss, norm) of each update."""
    model = build(run.architecture, run.plan, seed=run.seed).train()
    batches = Batches(corpus.train, LENGTH, BATCH, run.seed, isolate=True)
    weights = list(model.parameters())
    first, second = ([torch.zeros_like(weight) for weight in weights] for _ in range(2))
    seen, unequal = [], False
    for step in range(STEPS):
        whole = batches.at(step)
        arrays = (whole.tokens, whole.targets, whole.documents, whole.rows)
        tokens, targets, documents, rows = (torch.from_numpy(array) for array in arrays)
        pieces = [slice(i, i + BATCH // PIECES) for i in range(0, BATCH, BATCH // PIECES)]
        counts = [int((targets[piece] != IGNORED).sum()) for piece in pieces]
        unequal = unequal or counts[0] != counts[1]
        parts = [losses(model, tokens[p], targets[p], documents[p], Noise.at(run.seed, step, rows[p])) for p in pieces]
        loss = sum(nll + Z_LOSS * z for nll, z in parts) / sum(counts)
        gradients = torch.autograd.grad(loss, weights)
        norm = torch.stack([g.square().sum() for g in gradients]).sum().sqrt()
        assert norm > CLIP, "the test needs a gradient that is clipped"
        for weight, gradient, m, v in zip(weights, gradients, first, second, strict=True):
            gradient = gradient * CLIP / norm
            m.mul_(BETAS[0]).add_(gradient, alpha=1 - BETAS[0])
            v.mul_(BETAS[1]).add_(gradient.square(), alpha=1 - BETAS[1])
            mean, square = m / (1 - BETAS[0] ** (step + 1)), v / (1 - BETAS[1] ** (step + 1))
            with torch.no_grad():
                decayed = DECAY if weight.dim() == 2 else 0.0
                weight -= rate(step) * (decayed * weight + mean / (square.sqrt() + EPS))
        seen.append((loss.item(), norm.item()))
    assert unequal, "the test needs pieces of unequal numbers of targets"
    return model, seen


@torch.no_grad()
def held_out(model, corpus):
    """Nats per token over the validation split and bits per byte of its text, a window at a time."""
    split, total, count = corpus.validation, 0.0, 0
    model.eval()
    for start in range(0, len(split) - 1, LENGTH):
        line = torch.from_numpy(split.tokens[start : start + LENGTH + 1])[None]
        place = torch.arange(start, start + line.shape[1])
        document = torch.searchsorted(torch.tensor(split.starts.tolist()), place, right=True)[None]
        targets = torch.where(document[:, 1:] == document[:, :-1], line[:, 1:], IGNORED)
        if (targets != IGNORED).any():
            nll, _ = losses(model, line[:, :-1], targets, document[:, :-1], None)
            total, count = total + nll.item(), count + int((targets != IGNORED).sum())
    text = len(corpus.tokenizer.decode(split.tokens[:].tolist()).encode())
    return total / count, total / count * len(split) / text / math.log(2), count


def test_a_run_is_what_a_plain_loop_gives(run, tmp_path):
    trained = train(run, tmp_path / "run", console=Console(quiet=True))
    corpus = prepare(run.data)
    model, seen = plain(run, corpus)
    rows = [row for row in read_metrics(tmp_path / "run") if row["kind"] == "train"]
    torch.testing.assert_close([(row["loss"], row["gradient_norm"]) for row in rows], seen, rtol=1e-5, atol=1e-6)
    assert [row["learning_rate"] for row in rows] == pytest.approx([rate(step) for step in range(STEPS)])
    for (name, weight), other in zip(trained.model.named_parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(weight, other, rtol=1e-4, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}")
    loss, bits, count = held_out(model, corpus)
    assert trained.validation.count == count
    assert trained.validation.loss == pytest.approx(loss, rel=1e-5)
    assert trained.validation.bits_per_byte == pytest.approx(bits, rel=1e-5)
    assert trained.model.training is False
