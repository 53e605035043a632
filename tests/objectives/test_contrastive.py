"""Embeddings by contrast: the loss and the ranks by plain loops, pooling, hard negatives, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from anyformer.catalogue import architecture
from anyformer.data import Similar
from anyformer.describe import change_all
from anyformer.model.transformer import build
from anyformer.objectives import ContrastiveObjective, default_objective, loss_of
from anyformer.parts import Head
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Auxiliary
from objectives.heads import bert, drawn, made, measured

ROWS = [{"text": f"n {n}", "positive": f"number {n}", "negative": f"letter {n}"} for n in range(6)]
DATA = {"kind": "similar"}
HARD = {"kind": "similar", "negative": "negative"}


def plain(features: np.ndarray, texts: int, temperature: float, symmetric: bool) -> tuple[float, list[int]]:
    """(sum of the losses, ranks) by loops; `features`: the texts of each sample together."""
    rows = len(features) // texts
    unit = [vector / np.linalg.norm(vector) for vector in features]
    anchors = [unit[texts * i] for i in range(rows)]
    candidates = [unit[texts * i + kind] for kind in range(1, texts) for i in range(rows)]
    total, ranks = 0.0, []
    for i, anchor in enumerate(anchors):
        scores = [float(anchor @ other) / temperature for other in candidates]
        there = math.log(sum(map(math.exp, scores))) - scores[i]
        back = [float(candidates[i] @ other) / temperature for other in anchors]
        home = math.log(sum(map(math.exp, back))) - back[i]
        total += (there + home) / 2 if symmetric else there
        ranks.append(sum(score >= scores[i] for score in scores))
    return total, ranks


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("hard", [True, False])
def test_loss_and_ranks_by_loops(tmp_path, symmetric, hard):
    objective = ContrastiveObjective(temperature=0.2, symmetric=symmetric, hard_negatives=hard)
    batches = made(objective, HARD if hard else DATA, ROWS, tmp_path, 16).held_out
    texts = 3 if hard else 2
    outputs = [drawn(len(each.rows) * texts, 8, seed=number) for number, each in enumerate(batches)]
    figures = measured(objective, outputs, batches)
    expected = [plain(each.double().numpy(), texts, 0.2, symmetric) for each in outputs]
    ranks = [rank for _, own in expected for rank in own]
    assert len(batches) == 2
    assert figures["loss"] == pytest.approx(sum(loss for loss, _ in expected) / 6, rel=1e-5)
    assert figures["recall_at_1"] == pytest.approx(np.mean([rank == 1 for rank in ranks]))
    assert figures["mean_reciprocal_rank"] == pytest.approx(np.mean([1 / rank for rank in ranks]))


def test_texts_of_a_sample_stand_together(tmp_path):
    objective = ContrastiveObjective(hard_negatives=True)
    prepared = made(objective, HARD, ROWS, tmp_path, 16)
    examples, decode = prepared.held_out[0], prepared.corpus.tokenizer.decode
    found = [
        decode(row[~padding].tolist(), special=True) for row, padding in zip(examples.tokens, examples.padding, strict=True)
    ]
    assert found[:4] == ["[CLS]n 0[SEP]", "[CLS]number 0[SEP]", "[CLS]letter 0[SEP]", "[CLS]n 1[SEP]"]
    second = examples.slice(1, 2)
    assert torch.equal(second.tokens, examples.tokens[3:6])
    assert examples.count == 4


@pytest.mark.parametrize("pool", ["first", "mean", "last"])
def test_pooling_of_a_padded_row_is_that_of_the_row_alone(tmp_path, pool):
    objective = ContrastiveObjective(pool=pool, temperature=1.0, symmetric=False)
    examples = made(objective, DATA, ROWS, tmp_path, 24).held_out[0]
    model = build(bert(Head()).but(head=None), seed=1).eval()
    similar = objective.similarities(model, examples, None, Auxiliary())
    vectors = []
    for row, padding in zip(examples.tokens, examples.padding, strict=True):
        features = model(row[~padding][None])[0]
        vectors.append({"first": features[0], "mean": features.mean(0), "last": features[-1]}[pool])
    unit = torch.nn.functional.normalize(torch.stack(vectors), dim=-1)
    torch.testing.assert_close(similar, unit[::2] @ unit[1::2].mT, atol=1e-5, rtol=1e-5)


def test_a_head_that_pools_decides(tmp_path):
    model = build(architecture("sentence-bert-base", tiny=True)).eval()
    objective = ContrastiveObjective()
    examples = made(objective, DATA, ROWS, tmp_path, 24).held_out[0]
    with torch.no_grad():
        losses = {float(loss_of(objective.but(pool=pool), model, examples, None)) for pool in ("first", "mean", "last")}
    assert len(losses) == 1


def test_a_text_beside_itself_is_told_apart_by_dropout(tmp_path):
    """SimCSE's pairs: in training the two have other dropout, in evaluation they are equal."""
    objective = ContrastiveObjective()
    examples = made(objective, {"kind": "similar", "positive": "text"}, ROWS, tmp_path, 16).held_out[0]
    model = build(change_all(architecture("sentence-bert-base", tiny=True), {"encoder.dropout": 0.3})).train()
    noise = Noise.at(0, 0, examples.rows)
    own = [objective.similarities(model, examples, noise, Auxiliary()).diagonal() for _ in range(2)]
    assert torch.equal(own[0], own[1])
    assert float(own[0].max()) < 0.999 / 0.05
    torch.testing.assert_close(
        objective.similarities(model.eval(), examples, None, Auxiliary()).diagonal(), torch.full((4,), 20.0)
    )


@pytest.mark.parametrize("hard", [True, False])
def test_baseline_is_the_loss_of_equal_features(tmp_path, hard):
    objective = ContrastiveObjective(hard_negatives=hard)
    prepared = made(objective, HARD if hard else DATA, ROWS, tmp_path, 16)
    feeds = [
        objective.feed(prepared.data, prepared.corpus, prepared.setting, 4, held_out=held_out) for held_out in (False, True)
    ]
    name, loss = objective.baseline(feeds[0], 1, feeds[1], 100, 8)
    same = [torch.ones(len(each.tokens), 8) for each in prepared.held_out]
    assert measured(objective, same, prepared.held_out)["loss"] == pytest.approx(loss, rel=1e-5)
    assert name == "all texts of a batch alike"


def test_refusals():
    objective = ContrastiveObjective()
    with pytest.raises(ValueError, match=r"gives logits: take the head out"):
        objective.check(bert(Head(outputs=2, pool="first")))
    with pytest.raises(ValueError, match=r"accumulation = 2 cuts the batch: set accumulation = 1"):
        objective.sizes.check(16, 8, 2)
    with pytest.raises(ValueError, match="batch to 2 or more"):
        objective.sizes.check(16, 1, 1)
    with pytest.raises(ValueError, match=r"objective.hard_negatives = true and data.negative = None"):
        ContrastiveObjective(hard_negatives=True).check_data(
            Similar(paths=("a",)), architecture("sentence-bert-base", tiny=True), 16
        )


@pytest.mark.parametrize("name", ["bert-base-uncased-pooled", "sentence-bert-large", "all-minilm-l6-v2", "deberta-v3-base"])
def test_it_is_usual_where_features_come_out(name):
    assert default_objective(architecture(name)).kind == "contrastive"
