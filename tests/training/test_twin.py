"""Runs against a naive twin: a plain loop with Adam by its formulas, equal step by step in losses, norms and weights."""

from __future__ import annotations

import json
import math
import random

import pytest
import torch
import torch.nn.functional as F
from rich.console import Console

from anyformer import checkpoint
from anyformer.data import IGNORED, Batches, BytePairs, Bytes, Text, prepare
from anyformer.describe import change_all
from anyformer.model.transformer import build
from anyformer.parts.call.noise import Noise
from anyformer.training import ConstantSchedule, Cosine, InverseSquareRoot, Linear, WarmupStableDecay, resume, train
from anyformer.training.journal import read_metrics
from anyformer.tuning.groups import WeightGroup

QUIET = Console(quiet=True)
STEPS, BATCH, LENGTH, SEED, EVERY, PART = 6, 4, 24, 5, 2, 2
RATE, BETAS, EPS, DECAY = 1e-2, (0.8, 0.9), 1e-5, 0.2
GROUPS = (
    WeightGroup(paths=("embedding.*",), rate_factor=0.5, decay_factor=0.25),
    WeightGroup(paths=("*norm*",), decay_factor=1.0),
)

PIECES = {"accumulation": 2, "clip": 0.3, "objective.z_loss": 0.05, "schedule": Cosine(warmup=2, floor=0.1)}
CASES = {
    "every gradient clipped": PIECES,
    "a piece for each row": {
        **PIECES, "accumulation": 4, "objective.label_smoothing": 0.2, "schedule": Linear(warmup=1, floor=0.2),
    },
    "some gradients clipped": {**PIECES, "clip": 1.6, "schedule": WarmupStableDecay(warmup=1, floor=0.1, decay=0.5)},
    "groups": {
        "accumulation": 1, "clip": None, "optimiser.groups": [group.plain() for group in GROUPS],
        "schedule": ConstantSchedule(warmup=1), "data.sampling": "random",
    },
    "several epochs": {
        **PIECES, "clip": 1.0, "schedule": InverseSquareRoot(warmup=1), "data.isolate": False,
        "data.tokenizer": Bytes(), "data.validation": 0.9, "embedding.vocab": 257,
    },
}  # fmt: skip
"""What differs from the run of `run_of`."""


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    """Documents of very different lengths, so that pieces of a batch have different numbers of targets; not all is ASCII."""
    path = tmp_path_factory.mktemp("twin") / "lines.jsonl"
    chance = random.Random(0)
    words = ["".join(chance.choices("abcdefgé", k=chance.randrange(1, 6))) for _ in range(60)]
    texts = [" ".join(chance.choices(words, k=chance.randrange(1, 12))) for _ in range(150)]
    path.write_text("\n".join(json.dumps({"text": text}) for text in texts))
    return path


@pytest.fixture
def run_of(tiny, documents):
    """A run of `CASES`: dropout everywhere, documents apart, several bytes in a token, evaluated and saved as it goes."""

    def made(name):
        base = change_all(
            tiny,
            {
                "steps": STEPS, "batch": BATCH, "length": LENGTH, "seed": SEED, "embedding.vocab": 300,
                "data": Text(paths=(str(documents),), tokenizer=BytePairs(vocab=300), validation=0.1, isolate=True),
                "optimiser.learning_rate": RATE, "optimiser.betas": list(BETAS), "optimiser.eps": EPS,
                "optimiser.weight_decay": DECAY, "checkpoints.every": 1, "checkpoints.keep": STEPS,
                "evaluation.every": EVERY, "evaluation.batches": PART, "evaluation.final_tokens": 10**6,
            },
        )  # fmt: skip
        return change_all(base, CASES[name])

    return made


def factor(schedule, step):
    """Of the peak rate at update `step` (from 0), by the formula of each schedule."""
    if step < schedule.warmup:
        return (step + 1) / (schedule.warmup + 1)
    x = (step - schedule.warmup) / (STEPS - 1 - schedule.warmup)
    match schedule.kind:
        case "cosine":
            return schedule.floor + (1 - schedule.floor) * (1 + math.cos(math.pi * x)) / 2
        case "linear":
            return 1 + x * (schedule.floor - 1)
        case "warmup_stable_decay":
            stable = 1 - schedule.decay
            return 1 if x < stable else 1 + (x - stable) / schedule.decay * (schedule.floor - 1)
        case "constant":
            return 1
        case "inverse_square_root":
            return math.sqrt((schedule.warmup + 1) / (step + 1))


def pace(run, name, weight):
    """Factors of the rate and of the decay of a weight."""
    if run.optimiser.groups and name.startswith("embedding."):
        return 0.5, 0.25
    if run.optimiser.groups and "norm" in name:
        return 1, 1
    return 1, float(weight.dim() == 2)


def losses(run, model, tokens, targets, documents, noise):
    """Sums over the valid targets: the loss of training, and the plain cross-entropy."""
    logits = model(tokens, documents=documents, noise=noise)
    valid = targets != IGNORED
    logp = logits[valid].log_softmax(-1)
    nll = F.nll_loss(logp, targets[valid], reduction="sum")
    smoothing, z = run.objective.label_smoothing, logits[valid].logsumexp(-1)
    smoothed = (1 - smoothing) * nll - smoothing * logp.mean(-1).sum()
    return smoothed + run.objective.z_loss * z.square().sum(), nll


def plain(run, corpus):
    """The loop as a textbook has it: (loss, norm, weights) of each update, evaluations by step, and the model."""
    model = build(run.architecture, run.plan, seed=SEED).train()
    batches = Batches(corpus.train, LENGTH, BATCH, SEED, run.data.isolate, run.data.sampling)
    weights = dict(model.named_parameters())
    first, second = ({name: torch.zeros_like(weight) for name, weight in weights.items()} for _ in range(2))
    seen, evaluated = [], {}
    for step in range(STEPS):
        whole = batches.at(step)
        tokens, targets, rows = (torch.from_numpy(array) for array in (whole.tokens, whole.targets, whole.rows))
        documents = None if whole.documents is None else torch.from_numpy(whole.documents)
        size, total = BATCH // run.accumulation, 0.0
        for at in range(0, BATCH, size):
            p = slice(at, at + size)
            noise = Noise.at(SEED, step, rows[p])
            loss, _ = losses(run, model, tokens[p], targets[p], None if documents is None else documents[p], noise)
            total = total + loss / int((targets != IGNORED).sum())
        gradients = dict(zip(weights, torch.autograd.grad(total, list(weights.values())), strict=True))
        norm = torch.stack([gradient.square().sum() for gradient in gradients.values()]).sum().sqrt()
        for name, weight in weights.items():
            gradient = gradients[name] * (1 if run.clip is None or norm <= run.clip else run.clip / norm)
            m, v = first[name], second[name]
            m.mul_(BETAS[0]).add_(gradient, alpha=1 - BETAS[0])
            v.mul_(BETAS[1]).add_(gradient.square(), alpha=1 - BETAS[1])
            mean, square = m / (1 - BETAS[0] ** (step + 1)), v / (1 - BETAS[1] ** (step + 1))
            faster, decayed = pace(run, name, weight)
            with torch.no_grad():
                moved = DECAY * decayed * weight + mean / (square.sqrt() + EPS)
                weight -= RATE * factor(run.schedule, step) * faster * moved
        seen.append((total.item(), norm.item(), {name: weight.detach().clone() for name, weight in weights.items()}))
        if (step + 1) % EVERY == 0:
            evaluated[step + 1] = held_out(run, model, corpus, None if step + 1 == STEPS else PART * BATCH)
    return seen, evaluated, model


@torch.no_grad()
def held_out(run, model, corpus, most):
    """Nats per token over the held-out split, or `most` windows spread over it; bits per byte of its text; targets."""
    split, total, count = corpus.validation, 0.0, 0
    windows = math.ceil((len(split) - 1) / LENGTH)
    few = windows if most is None else min(most, windows)
    model.eval()
    for number in range(few):
        start = int((number + 0.5) * windows / few) * LENGTH
        line = torch.from_numpy(split.tokens[start : start + LENGTH + 1])[None]
        targets, document = line[:, 1:].clone(), None
        if run.data.isolate:
            place = torch.arange(start, start + line.shape[1])
            of = torch.searchsorted(torch.tensor(split.starts.tolist()), place, right=True)[None]
            targets[of[:, 1:] != of[:, :-1]] = IGNORED
            document = of[:, :-1]
        if (targets != IGNORED).any():
            total += losses(run, model, line[:, :-1], targets, document, None)[1].item()
            count += int((targets != IGNORED).sum())
    model.train()
    text = len(corpus.tokenizer.decode(split.tokens[:].tolist()).encode())
    return total / count, total / count * len(split) / text / math.log(2), count


@pytest.mark.parametrize("name", CASES)
def test_a_run_is_what_a_plain_loop_gives(run_of, tmp_path, name):
    run = run_of(name)
    trained = train(run, tmp_path / "run", console=QUIET)
    corpus = prepare(run.data)
    seen, evaluated, model = plain(run, corpus)
    check_that_a_mistake_would_show(name, run, corpus, [norm for _, norm, _ in seen])
    compare(run, tmp_path / "run", seen, evaluated)
    for (weight, ours), other in zip(trained.model.named_parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(ours, other, rtol=1e-4, atol=1e-5, msg=lambda text, weight=weight: f"{weight}: {text}")
    assert trained.validation.loss == pytest.approx(evaluated[STEPS][0], rel=1e-5)
    assert trained.model.training is False


def test_a_run_that_was_stopped_is_what_a_plain_loop_gives(run_of, tmp_path):
    run = run_of("several epochs")  # whose schedule does not look at the end
    train(run.but(steps=3), tmp_path / "run", console=QUIET)
    resume(tmp_path / "run", {"steps": STEPS}, console=QUIET)
    seen, evaluated, _ = plain(run, prepare(run.data))
    compare(run, tmp_path / "run", seen, evaluated)


def check_that_a_mistake_would_show(name, run, corpus, norms):
    """Pieces have unequal numbers of targets, gradients lie on the side of the clip that is meant, tokens are several bytes."""
    batches = Batches(corpus.train, LENGTH, BATCH, SEED, run.data.isolate, run.data.sampling)
    valid = [(batches.at(step).targets != IGNORED).reshape(run.accumulation, -1).sum(1) for step in range(STEPS)]
    assert any(counts.min() < counts.max() for counts in valid) == (run.data.isolate and run.accumulation > 1)
    assert (batches.windows < STEPS * BATCH) == (name == "several epochs")
    clipped = {"every gradient clipped": {True}, "some gradients clipped": {True, False}}
    if name in clipped:
        assert {norm > run.clip for norm in norms} == clipped[name]
    if run.data.tokenizer.kind != "bytes":
        text = corpus.tokenizer.decode(corpus.validation.tokens[:].tolist())
        assert len(text.encode()) > 1.5 * len(corpus.validation)


def compare(run, directory, seen, evaluated):
    """Everything that a run writes of its steps, beside what the plain loop saw."""
    rows = read_metrics(directory)
    steps = [row for row in rows if row["kind"] == "train"]
    expected = [(loss, norm) for loss, norm, _ in seen]
    torch.testing.assert_close([(row["loss"], row["gradient_norm"]) for row in steps], expected, rtol=1e-5, atol=1e-6)
    rates = [RATE * factor(run.schedule, step) for step in range(STEPS)]
    assert [row["learning_rate"] for row in steps] == pytest.approx(rates)
    for number, (_, _, weights) in enumerate(seen, 1):
        kept = checkpoint.read(checkpoint.directory_of(directory, number) / "model.safetensors")
        assert weights.keys() == kept.keys()
        for name, weight in weights.items():
            torch.testing.assert_close(kept[name], weight, rtol=1e-4, atol=1e-5, msg=f"{name} after update {number}")
    found = {row["step"]: row for row in rows if row["kind"] == "validation" if row["step"] in evaluated}
    assert found.keys() == evaluated.keys()
    for step, (loss, bits, count) in evaluated.items():
        assert found[step]["targets"] == count
        assert found[step]["loss"] == pytest.approx(loss, rel=1e-5)
        assert found[step]["bits_per_byte"] == pytest.approx(bits, rel=1e-5)
