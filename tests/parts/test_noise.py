"""Dropout by counter hash: fair, keyed by row and site, and the same bits however it is computed."""

from __future__ import annotations

import pytest
import torch

from anyformer.parts.call.noise import Dropout, Noise, bits, mix, uniform


def noise(rows: int = 4, step: int = 0) -> Noise:
    return Noise.at(1, step, torch.arange(rows))


def test_mix_is_a_bijection_on_a_sample():
    x = torch.arange(1 << 16) * 65_537 % (1 << 32)
    assert len(mix(x).unique()) == len(x)
    assert mix(x).min() >= 0
    assert mix(x).max() < 1 << 32


def test_every_bit_is_fair_and_neighbours_are_independent():
    drawn = bits(noise(8), 7, torch.Size((8, 64, 64))).flatten()
    for bit in range(32):
        share = (drawn >> bit & 1).double().mean().item()
        assert abs(share - 0.5) < 5 * 0.5 / len(drawn) ** 0.5, bit
    uniform = drawn.double() / 2**32 - 0.5
    correlation = (uniform[1:] * uniform[:-1]).mean() * 12
    assert abs(correlation) < 5 / len(drawn) ** 0.5


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_rate_and_scale(rate):
    x = torch.ones(4, 100, 50)
    y = Dropout(rate, "here").train()(x, noise())
    assert abs((y == 0).double().mean().item() - rate) < 0.02
    torch.testing.assert_close(y[y != 0], torch.full_like(y[y != 0], 1 / (1 - rate)))
    assert torch.equal(Dropout(rate, "here").eval()(x, noise()), x)


def test_rows_steps_and_sites_differ_and_repeat():
    x, drop = torch.ones(4, 30, 30), Dropout(0.5, "a").train()
    y = drop(x, noise())
    assert torch.equal(y, drop(x, noise()))
    assert not torch.equal(y[0], y[1])
    assert not torch.equal(y, drop(x, noise(step=1)))
    assert not torch.equal(y, Dropout(0.5, "b").train()(x, noise()))


def test_splitting_a_batch_changes_no_bit():
    x, drop, whole = torch.ones(4, 10, 6), Dropout(0.3, "a").train(), noise()
    parts = [drop(x[rows], Noise(whole.key, whole.rows[rows])) for rows in (slice(0, 1), slice(1, 4))]
    assert torch.equal(torch.cat(parts), drop(x, whole))


def test_compiled_bits_are_the_eager_ones():
    x, drop = torch.randn(4, 33, 20), Dropout(0.3, "a").train()
    compiled = torch.compile(lambda x, key, rows: drop(x, Noise(key, rows)), fullgraph=True)
    for step in range(3):
        n = noise(step=step)
        assert torch.equal(compiled(x, n.key, n.rows), drop(x, n))


def test_uniform_numbers_are_even_and_never_0_or_1():
    drawn = uniform(noise(64), 7, torch.Size((64, 4096)))
    assert drawn.dtype == torch.float32
    assert 0 < drawn.min() < 1e-4
    assert 1 - 1e-4 < drawn.max() < 1
    assert abs(drawn.double().mean().item() - 0.5) < 5 / (12 * drawn.numel()) ** 0.5
