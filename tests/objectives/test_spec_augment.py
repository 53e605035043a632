"""SpecAugment: what it hides, how often, and that its masks are those of the sample wherever it stands."""

from __future__ import annotations

import pytest
import torch

from anyformer.objectives.spec_augment import SpecAugment
from anyformer.parts.call.noise import Noise, uniform


def features(batch: int = 3, inputs: int = 40, length: int = 90) -> torch.Tensor:
    return torch.randn(batch, inputs, length, generator=torch.Generator().manual_seed(1))


def noise(*rows: int, step: int = 0) -> Noise:
    return Noise.at(5, step, torch.tensor(rows))


def twin(value: SpecAugment, x_IT: torch.Tensor, row: int, own: int) -> torch.Tensor:
    """A sound at a time, a mask at a time."""
    result, inputs = x_IT.clone(), len(x_IT)
    mean = x_IT[:, :own].mean()
    for which, (count, most, size) in enumerate(
        [(value.frequency_masks, value.bins, inputs), (value.time_masks, min(value.frames, int(value.share * own)), own)]
    ):
        draws = uniform(noise(row).other(which), 0, torch.Size((1, max(1, count), 2)))[0]
        for wide, begin in draws[:count].tolist():
            wide = int(wide * (min(most, size) + 1))
            begin = int(begin * (size - wide + 1))
            if which == 0:
                result[begin : begin + wide, :own] = mean
            else:
                result[:, begin : begin + wide] = mean
    return result


@pytest.mark.parametrize(
    "value",
    [SpecAugment(), SpecAugment(bins=60), SpecAugment(share=0.2, time_masks=5), SpecAugment(frequency_masks=0, frames=9)],
)
def test_it_is_the_naive_twin_of_sounds_of_any_length(value):
    x, lengths = features(), torch.tensor([90, 41, 7])
    found = value.apply(x, noise(8, 3, 11), lengths)
    for place, (row, own) in enumerate(zip((8, 3, 11), lengths.tolist(), strict=True)):
        torch.testing.assert_close(found[place], twin(value, x[place], row, own))
        assert torch.equal(found[place][:, own:], x[place][:, own:])


def test_masks_belong_to_the_sample_and_the_step():
    value, x = SpecAugment(), features(1).expand(2, -1, -1)
    found = value.apply(x, noise(4, 7))
    assert torch.equal(value.apply(x[:1], noise(7))[0], found[1])
    assert not torch.equal(found[0], found[1])
    assert not torch.equal(value.apply(x, noise(4, 7, step=1)), found)


def test_masks_are_as_wide_as_they_should_be_on_average():
    value = SpecAugment(frequency_masks=1, bins=10, time_masks=1, frames=20)
    found = value.apply(torch.randn(4000, 30, 60), Noise.at(0, 0, torch.arange(4000)))
    same = found == found.flatten(1).mode(1).values[:, None, None]
    bands, times = same.all(2).sum(1), same.all(1).sum(1)
    assert bands.max() == 10
    assert times.max() == 20
    assert bands.float().mean() == pytest.approx(5, rel=0.05)
    assert times.float().mean() == pytest.approx(10, rel=0.05)
    starts = same.all(1).float().mean(0)
    assert starts[0] > 0
    assert starts[-1] > 0
    assert starts[30] == pytest.approx(float(starts.max()), rel=0.2)


def test_nothing_is_hidden_without_masks():
    x = features()
    assert torch.equal(SpecAugment(frequency_masks=0, time_masks=0).apply(x, noise(1, 2, 3)), x)
    changed = SpecAugment().apply(x.requires_grad_(), noise(1, 2, 3))
    changed.sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
