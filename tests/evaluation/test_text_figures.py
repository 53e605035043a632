"""Figures of running text: equal to counting them target by target."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pytest
import torch

from anyformer.data import Split
from anyformer.evaluation import text_figures
from anyformer.evaluation.chart import draw_figures
from anyformer.evaluation.readings import SideBySide
from anyformer.evaluation.subject import PLAN
from anyformer.evaluation.text_figures import Bin, Sums, TextFigures
from anyformer.model.transformer import build
from anyformer.objectives import CausalObjective, Setting
from anyformer.objectives.feed import TextFeed
from anyformer.training.evaluate import evaluate
from evaluation.conftest import sharp, tiny_decoder

LENGTH, STARTS, WHOLE = 16, (0, 3, 40, 41, 60), 75


def model():
    """It is sure of some tokens and not of others."""
    return sharp(build(tiny_decoder(), seed=3))


@torch.no_grad()
def feed(isolate):
    """Every second token is what the model expects first, fifth or sixth."""
    tokens, expecting = np.random.default_rng(0).integers(0, 257, WHOLE), model()
    for place in range(1, WHOLE, 2):
        start = (place - 1) // LENGTH * LENGTH
        logits = expecting(torch.from_numpy(tokens[None, start:place]))[0, -1]
        tokens[place] = int(logits.argsort(descending=True)[(0, 0, 4, 5)[place // 2 % 4]])
    split = Split.of(tokens, STARTS, bytes=2 * WHOLE)
    setting = Setting(None, LENGTH)
    return TextFeed(split, LENGTH, 3, 0, isolate, "epochs", lambda batch: CausalObjective().examples(batch, setting))


def one_by_one(model, split, isolate):
    """(position, document, nats, correct, among five, confidence) of each target, with logits of one row at a time."""
    tokens = split.tokens[:].astype(int).tolist()
    document = [max(number for number, start in enumerate(STARTS) if start <= place) for place in range(WHOLE)]
    for start in range(0, WHOLE - 1, LENGTH):
        begins = start
        for place in range(start, min(start + LENGTH, WHOLE - 1)):
            if isolate and document[place] != document[begins]:
                begins = place
            if isolate and document[place + 1] != document[place]:
                continue
            chances = model(torch.tensor([tokens[begins : place + 1]]))[0, -1].double().softmax(-1).tolist()
            wanted = tokens[place + 1]
            better = sum(chance > chances[wanted] for chance in chances)
            yield place + 1 - begins, document[place + 1], -math.log(chances[wanted]), better == 0, better < 5, max(chances)


@pytest.mark.parametrize("isolate", [False, True])
@torch.no_grad()
def test_figures_are_those_of_each_target(isolate):
    subject, given = model(), feed(isolate)
    figures = text_figures(subject, CausalObjective(), SideBySide(given), PLAN)
    positions, documents, bins = defaultdict(list), defaultdict(list), defaultdict(list)
    for position, document, *found, confidence in one_by_one(subject, given.split, isolate):
        positions[position.bit_length() - 1].append(found)
        documents[document].append(found)
        bins[min(9, int(confidence * 10))].append((confidence, found[1]))
    ends = [*STARTS[1:], WHOLE]
    lengths = {number: (end - start).bit_length() - 1 for number, (start, end) in enumerate(zip(STARTS, ends, strict=True))}
    by_length = defaultdict(list)
    for document, found in documents.items():
        by_length[lengths[document]] += found
    for buckets, naive in ((figures.by_position, positions), (figures.by_document, by_length)):
        assert [bucket.first for bucket in buckets] == [2**power for power in sorted(naive)]
        for bucket, (_, rows) in zip(buckets, sorted(naive.items()), strict=True):
            nats, correct, five = map(sum, zip(*rows, strict=True))
            assert (bucket.sums.count, bucket.sums.correct, bucket.sums.among_five) == (len(rows), correct, five)
            assert bucket.sums.nats == pytest.approx(nats, rel=1e-5)
    assert figures.by_position[-1].last == LENGTH
    assert [each.count for each in figures.calibration] == [len(bins[number]) for number in range(10)]
    assert sum(each.count > 0 for each in figures.calibration) > 3, "the model is sure of some tokens only"
    whole = sum(len(rows) for rows in bins.values())
    off = sum(abs(sum(sure for sure, _ in rows) - sum(right for _, right in rows)) for rows in bins.values()) / whole
    assert figures.calibration_error == pytest.approx(off, abs=1e-6)
    for number, rows in documents.items():
        assert figures.documents[number] == pytest.approx([len(rows), sum(row[0] for row in rows)], rel=1e-5)


@pytest.mark.parametrize("isolate", [False, True])
def test_parts_add_up_to_the_whole_which_is_that_of_training(isolate):
    subject, given = model(), feed(isolate)
    seen = []
    figures = text_figures(subject, CausalObjective(), SideBySide(given), PLAN, seen.append)
    expected = evaluate(subject, CausalObjective(), given, PLAN)
    whole = figures.whole
    assert whole.loss == pytest.approx(expected.loss, rel=1e-6)
    assert (whole.count, whole.accuracy) == (expected.count, pytest.approx(expected.metrics["accuracy"]))
    assert figures.bits_per_byte == pytest.approx(expected.bits_per_byte, rel=1e-6)
    for buckets in (figures.by_position, figures.by_document):
        parts = [bucket.sums for bucket in buckets]
        assert sum(each.count for each in parts) == whole.count
        assert sum(each.nats for each in parts) == pytest.approx(whole.nats)
        assert sum(each.correct for each in parts) == whole.correct
        assert sum(each.among_five for each in parts) == whole.among_five
    for units in (figures.rows, figures.documents):
        assert units.sum(0) == pytest.approx([whole.count, whole.nats])
    assert sum(each.count for each in figures.calibration) == whole.count
    assert seen[-1] == given.whole
    assert seen == sorted(seen)


def test_calibration_error_is_the_mean_gap():
    empty = Bin(0, math.nan, math.nan)
    figures = TextFigures(
        Sums(40, 0.0, 20, 30), (), (), (Bin(10, 0.9, 0.5), empty, Bin(30, 0.25, 0.35)), None, np.zeros((0, 2)), np.zeros((0, 2))
    )
    assert figures.calibration_error == pytest.approx(0.25 * 0.4 + 0.75 * 0.1)
    assert figures.bits_per_byte is None


def test_the_picture_is_written(tmp_path):
    figures = text_figures(model(), CausalObjective(), SideBySide(feed(False)), PLAN)
    draw_figures(figures, tmp_path / "figures.svg", title="a model")
    assert "<svg" in (tmp_path / "figures.svg").read_text()
