"""Steering vectors: a difference of means, added at every position and in generation."""

from __future__ import annotations

import pytest
import torch

from anyformer.catalogue.llama import llama
from anyformer.describe import InputError
from anyformer.generation import GREEDY, generate_tokens
from anyformer.inspecting import SteeringVector, steering_vector
from anyformer.model.transformer import build

TOWARDS, AWAY = torch.tensor([[1, 5, 2], [3, 5, 2]]), torch.tensor([[1, 6, 7], [3, 6, 7]])
PATH = "decoder.layer[0].output"


@pytest.fixture(scope="module")
def model():
    return build(llama(width=16, depth=2, heads=2, kv_heads=1, ffn=24, vocab=23), seed=3).eval()


@pytest.mark.parametrize("position", [-1, None])
def test_the_direction_is_a_difference_of_means(model, position):
    found = steering_vector(model, PATH, TOWARDS, AWAY, position=position)
    sides = []
    with torch.no_grad(), model.watch(PATH) as seen:
        for tokens in (TOWARDS, AWAY):
            model(tokens)
            sides.append(seen[PATH].mean(1) if position is None else seen[PATH][:, position])
    wanted = sides[0].mean(0) - sides[1].mean(0)
    assert torch.allclose(found.direction_D, wanted, atol=1e-6)
    pairs = torch.cosine_similarity(sides[0] - sides[1], wanted, -1)
    assert found.cosine == pytest.approx(float(pairs.mean()), abs=1e-5)
    assert found.typical == pytest.approx(float(torch.cat(sides).norm(dim=-1).mean()), abs=1e-5)
    assert found.table().row_count == 1


def test_what_is_added_is_seen_and_leaves_again(model):
    found = steering_vector(model, PATH, TOWARDS, AWAY)
    with torch.no_grad(), model.watch(PATH) as seen:
        plain = model(TOWARDS)
        before = seen[PATH]
        with found.steering(model, 2.0):
            model(TOWARDS)
        assert torch.allclose(seen[PATH], before + 2 * found.direction_D)
        assert torch.equal(model(TOWARDS), plain)


def test_a_direction_to_a_token_makes_it_follow(model):
    """Behind the last layer the row of a token, long enough, is all that the head reads."""
    last = "decoder.layer[1].output"
    towards = SteeringVector(last, model.head.weight[9].detach() / model.decoder.final_norm.weight.detach())
    assert [str(cell) for column in towards.table().columns for cell in column.cells][2:] == ["-", "-"]
    plain = generate_tokens(model, TOWARDS.tolist(), max_tokens=6, sampling=GREEDY)
    with towards.steering(model, 1e4):
        steered = generate_tokens(model, TOWARDS.tolist(), max_tokens=6, sampling=GREEDY)
    with towards.steering(model, 0.0):
        assert generate_tokens(model, TOWARDS.tolist(), max_tokens=6, sampling=GREEDY) == plain
    assert steered != plain
    assert all(row == [9] * 6 for row in steered)


def test_a_value_that_is_no_vector_is_refused(model):
    with pytest.raises(InputError, match="a direction is one of"):
        steering_vector(model, "decoder.layer[0].attention.heads", TOWARDS, AWAY)
