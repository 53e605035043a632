"""Flow matching: paths, times, dropped classes, figures, and pictures by a model that learnt."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from anyformer.catalogue import architecture
from anyformer.data import Bytes, Images, RecordBatch
from anyformer.data.vocabulary import make_tokenizer
from anyformer.describe import DescriptionError, UserError, change_all
from anyformer.evaluation import painter_of, sheet_of
from anyformer.model.transformer import build
from anyformer.objectives import CausalObjective, FlowMatchingObjective, Setting
from anyformer.objectives.flow_times import LogitNormalTimes
from anyformer.parts.call.noise import Noise, normal
from anyformer.parts.call.reports import Auxiliary
from anyformer.text import Specials
from anyformer.training import default_run

SIDE = 4
DIT = change_all(
    architecture("dit-s-2", tiny=True),
    {
        "embedding.channels": 1, "encoder.position.columns": 2, "encoder.position.length": 4, "encoder.condition.classes": 3,
        "head.outputs": 4, "width": 32,
    },
)  # fmt: skip
OBJECTIVE = FlowMatchingObjective()
SETTING = Setting(make_tokenizer(Bytes(), tuple, tuple, Specials()), 4, 5, {"label": ("a", "b", "c")}, DIT)
DATA = Images(paths=("x",), channels=1, height=SIDE, width=SIDE)


def drawn(rows: np.ndarray) -> RecordBatch:
    """Bars: across, upright, and a square in the middle, by class, each a little different."""
    records = []
    for row in rows:
        image = np.full((1, SIDE, SIDE), 20 + row % 7 * 5)
        place = [(0, slice(0, 2)), (0, slice(None), slice(0, 2)), (0, slice(1, 3), slice(1, 3))][row % 3]
        image[place] = 200 + row % 11 * 5
        records.append(({"image": image.astype(np.uint8), "label": row % 3},))
    return RecordBatch(tuple(records), np.asarray(rows))


def test_an_image_lies_on_the_straight_path_from_its_noise():
    batch = drawn(np.arange(6))
    found = OBJECTIVE.examples(batch, SETTING, training=True)
    noise = normal(Noise.at(5, 0, torch.arange(6)), 0, torch.Size((6, 1, SIDE, SIDE)))
    for row, (record,) in enumerate(batch.records):
        x = (torch.from_numpy(record["image"]) / 255 - 0.5) / 0.5
        t = found.times[row]
        torch.testing.assert_close(found.tokens[row], (1 - t) * x + t * noise[row])
        torch.testing.assert_close(found.targets[row], noise[row] - x)


def test_draws_follow_from_the_samples_number():
    whole, part = (OBJECTIVE.examples(drawn(rows), SETTING, training=True) for rows in (np.arange(8), np.arange(4, 8)))
    assert torch.equal(whole.tokens[4:], part.tokens)
    assert torch.equal(whole.classes[4:], part.classes)
    other = OBJECTIVE.examples(drawn(np.arange(8)), replace(SETTING, seed=6), training=True)
    assert not torch.equal(whole.times, other.times)


def test_times_and_dropped_classes():
    found = OBJECTIVE.but(unclassed=0.3).examples(drawn(np.arange(3000)), SETTING, training=True)
    assert float((found.classes == 3).float().mean()) == pytest.approx(0.3, abs=0.03)
    assert float(found.times.mean()) == pytest.approx(0.5, abs=0.02)
    assert float((found.times < 0.1).float().mean()) == pytest.approx(0.1, abs=0.02)
    told = found.classes != 3
    assert torch.equal(found.classes[told], torch.arange(3000)[told] % 3)


def test_logit_normal_times():
    """Half of them below the sigmoid of the mean, 84 % below that of a deviation more."""
    times = LogitNormalTimes(mean=0.5, deviation=2.0).of((torch.arange(1000) + 0.5) / 1000)
    shares = [float((times < torch.sigmoid(torch.tensor(edge))).float().mean()) for edge in (-1.5, 0.5, 2.5)]
    assert shares == pytest.approx([0.1587, 0.5, 0.8413], abs=0.002)


def test_held_out_images_are_asked_at_fixed_times():
    found = OBJECTIVE.but(asked_at=(0.2, 0.8)).examples(drawn(np.arange(5)), SETTING)
    torch.testing.assert_close(found.times, torch.tensor([0.2, 0.8, 0.2, 0.8, 0.2]))
    assert found.facts[:, 0].tolist() == [0, 1, 0, 1, 0]
    assert found.classes.tolist() == [0, 1, 2, 0, 1]


class Said(torch.nn.Module):
    """A model that says what it is told to, as patches, with a variance behind."""

    def __init__(self, images):
        super().__init__()
        patches = images.view(len(images), 2, 2, 2, 2).transpose(2, 3).reshape(len(images), 4, 4)
        self.said = torch.cat([patches, torch.full_like(patches, 99.0)], -1)

    def forward(self, images, **given):
        return self.said


def test_figures_of_what_a_model_says():
    """The loss is the mean over an image; a right velocity explains all, the mean of all of them nothing."""
    examples = OBJECTIVE.examples(drawn(np.arange(10)), SETTING)
    mean = examples.targets.mean(0, keepdim=True).expand_as(examples.targets).contiguous()
    for said, explained in ((examples.targets, 1.0), (mean, 0.0)):
        model = Said(said)
        wanted = (said - examples.targets).square().mean((1, 2, 3))
        torch.testing.assert_close(OBJECTIVE.signal(model, examples, None, Auxiliary(), {}), wanted.sum())
        figures = OBJECTIVE.metrics(OBJECTIVE.statistics(model, examples, Auxiliary(), {}), {})
        assert figures["explained"] == pytest.approx(explained, abs=1e-5)
        assert figures["loss_at_0.3"] == pytest.approx(float((wanted[1] + wanted[6]) / 2), abs=1e-6)


def test_the_baseline_is_the_mean_velocity():
    """Of images x and noise of variance 1: 1 + the variance of x around its mean, about."""
    training = SimpleNamespace(at=lambda step: OBJECTIVE.examples(drawn(np.arange(300) + 300 * step), SETTING, training=True))
    held_out = SimpleNamespace(once=lambda windows: [OBJECTIVE.examples(drawn(np.arange(9000, 9300)), SETTING)])
    what, loss = OBJECTIVE.baseline(training, 3, held_out, 300, 4)
    x = OBJECTIVE.standardised(torch.from_numpy(np.stack([r["image"] for (r,) in drawn(np.arange(300)).records])).float())
    assert what == "the mean velocity of the training images"
    assert loss == pytest.approx(1 + float(x.var(0).mean()), rel=0.03)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"architecture.head.outputs": 5}, "predicts the 4 numbers of a patch, and head.outputs = 5: set 4, or 8"),
        ({"architecture.embedding.class_tokens": 1}, "set embedding.class_tokens = 0"),
        ({"data.width": 6, "length": 6}, "has 3 patches in a row, and the positions of the encoder are for 2"),
        ({"length": 5}, "set length = 4"),
    ],
)
def test_what_cannot_be_trained_so(changes, said):
    run = default_run(DIT, ("digits",), data=DATA)
    assert run.objective == OBJECTIVE
    with pytest.raises(DescriptionError, match=said):
        change_all(run, changes)


def test_other_models_and_too_many_classes():
    with pytest.raises(ValueError, match=r"no condition to read: set encoder.condition"):
        OBJECTIVE.check(architecture("vit-base-16", tiny=True))
    OBJECTIVE.check(architecture("dit-xl-2", tiny=True))
    crowded = SimpleNamespace(names={"label": ("a", "b", "c", "d")})
    with pytest.raises(UserError, match=r"4 classes, and the condition 3: set condition.classes = 4"):
        OBJECTIVE.check_corpus(crowded, SETTING)


def test_a_model_that_learnt_makes_pictures_of_the_class_that_is_asked():
    model = build(DIT, seed=1)
    optimiser = torch.optim.AdamW(model.parameters(), lr=4e-3)
    for step in range(150):
        examples = OBJECTIVE.examples(drawn(np.arange(48 * step, 48 * step + 48)), SETTING, training=True)
        optimiser.zero_grad()
        (OBJECTIVE.signal(model, examples, None, Auxiliary(), {}) / 48).backward()
        optimiser.step()
    painter = painter_of(model.eval(), OBJECTIVE, DATA, ("a", "b", "c"), "here")
    found = painter.pictures(["a", "b", "c"], 16, steps=20, guidance=2.0)
    assert found.shape == (3, 16, SIDE, SIDE, 1)
    means = np.stack([np.mean([r["image"][0] for (r,) in drawn(np.arange(kind, 231, 3)).records], 0) for kind in range(3)])
    distances = np.square(found[:, :, None, :, :, 0] - means).mean((-2, -1))
    right = (distances.argmin(-1) == np.arange(3)[:, None]).mean()
    assert right > 0.9
    assert sheet_of(found).shape == (3 * SIDE + 2, 16 * SIDE + 15, 1)
    with pytest.raises(UserError, match=r"--class d: the model knows no such class .it knows a, b, c."):
        painter.pictures(["d"])
    with pytest.raises(UserError, match="one for flow_matching makes pictures"):
        painter_of(model, CausalObjective(), DATA, (), "here")
