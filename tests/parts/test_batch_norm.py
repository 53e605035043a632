"""BatchNorm in training: statistics over all positions together, and over each position by itself."""

from __future__ import annotations

import pytest
import torch

from anyformer.describe import DescriptionError, InputError
from anyformer.model.shapes import decoder_only
from anyformer.model.transformer import build
from anyformer.operations import Shape
from anyformer.parts import Attention, BatchNorm, Embedding, FanIn, FeedForward, Head, Initialisation, Normal
from anyformer.parts.counting import standing_still
from anyformer.parts.layers.wiring import pre_norm

B, T, D = 3, 4, 5
LOUD = Initialisation(matrix=FanIn(), embedding=Normal(std=1.0), head=FanIn())


def drawn(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def built(norm):
    module = norm.build(D).double()
    with torch.no_grad():
        for i, (name, weight) in enumerate(module.named_parameters()):
            weight.copy_({"running_mean": torch.zeros(D), "running_variance": torch.ones(D)}.get(name, drawn(D, seed=9 + i)))
    return module.train()


def normalised_by_hand(norm, module, x):
    """The notes' formula ("CS190C lecture 3", 4.1): mu_i and sigma_i of the B elements at one position; or of all of them."""
    y = torch.zeros_like(x)
    for t in range(T):
        for d in range(D):
            own = x[:, t, d] if norm.over == "position" else x[:, :, d].flatten()
            mu = sum(own) / len(own)
            variance = sum((v - mu) ** 2 for v in own) / len(own)
            for b in range(B):
                y[b, t, d] = (x[b, t, d] - mu) / (variance + norm.eps) ** 0.5
                if norm.gain != "none":
                    y[b, t, d] *= module.weight[d] + (norm.gain == "one_plus_weight")
                y[b, t, d] += module.bias[d] if norm.bias else 0
    return y


@pytest.mark.parametrize("over", ["batch", "position"])
@pytest.mark.parametrize(
    "more", [{}, {"gain": "one_plus_weight"}, {"gain": "none", "bias": False}], ids=["", "one_plus", "bare"]
)
def test_training_equals_loops(over, more):
    norm = BatchNorm(over=over, eps=1e-3, **more)
    module, ours, theirs = built(norm), drawn(B, T, D).requires_grad_(), drawn(B, T, D).requires_grad_()
    y, by_hand, direction = module(ours), normalised_by_hand(norm, module, theirs), drawn(B, T, D, seed=1)
    torch.testing.assert_close(y, by_hand)
    gradients = (torch.autograd.grad((each * direction).sum(), x) for each, x in ((y, ours), (by_hand, theirs)))
    torch.testing.assert_close(*gradients)


def test_each_position_is_torch_batch_norm_of_its_rows():
    module, x = built(BatchNorm(over="position")), drawn(B, T, D)
    theirs = torch.stack(
        [torch.nn.functional.batch_norm(x[:, t], None, None, module.weight, module.bias, True) for t in range(T)], 1
    )
    torch.testing.assert_close(module(x), theirs)


def test_running_statistics_are_means_over_positions():
    module, x = built(BatchNorm(over="position", momentum=0.25)), drawn(B, T, D)
    module(x)
    torch.testing.assert_close(module.running_mean.detach(), 0.25 * x.mean(0).mean(0))
    torch.testing.assert_close(module.running_variance.detach(), 0.75 + 0.25 * x.var(0).mean(0))
    before = module.running_mean.detach().clone()
    module.eval()(x)
    assert torch.equal(module.running_mean, before)


def small(over):
    block = pre_norm(BatchNorm(over=over), Attention(heads=2), FeedForward(width=16))
    return decoder_only(Embedding(vocab=13), 8, [block] * 2, head=Head(), initialisation=LOUD)


def test_only_statistics_of_all_positions_let_training_see_later_tokens():
    x = torch.randint(0, 13, (4, 6), generator=torch.Generator().manual_seed(0))
    y = x.clone()
    y[:, 4:] = (y[:, 4:] + 1) % 13
    moved = {}
    for over in ("batch", "position"):
        before, after = (build(small(over), dtype=torch.float64).train()(each)[:, :4] for each in (x, y))
        moved[over] = (before - after).abs().max().item()
    assert moved["batch"] > 1e-3
    assert moved["position"] == 0


def test_what_each_breaks_is_declared():
    broken = {
        over: {c for c in ("causal", "packed", "padded") if small(over).cost(Shape()).breaks(c, training=True)}
        for over in ("batch", "position")
    }
    assert broken == {"batch": {"causal", "packed", "padded"}, "position": {"packed", "padded"}}
    assert not small("position").cost(Shape()).breaks("padded")


def test_padding_distorts_the_statistics_in_training():
    x, padding = torch.randint(0, 13, (4, 6), generator=torch.Generator().manual_seed(0)), torch.zeros(4, 6, dtype=torch.bool)
    padding[0, 3:] = True
    y = x.clone()
    y[0, 3:] = (y[0, 3:] + 1) % 13
    before, after = (build(small("position"), dtype=torch.float64).train()(each, padding=padding)[1:] for each in (x, y))
    assert (before - after).abs().max() > 1e-3


def test_one_row_is_refused_in_training_and_taken_in_evaluation():
    model = build(small("position"))
    with pytest.raises(InputError, match="train on at least 2 rows"):
        model.train()(torch.ones(1, 5, dtype=torch.int64))
    assert model.eval()(torch.ones(1, 5, dtype=torch.int64)).isfinite().all()


def test_other_words_are_refused():
    with pytest.raises(DescriptionError, match="over"):
        BatchNorm(over="positions")


def test_statistics_move_again_once_a_layer_was_computed_again():
    module = BatchNorm().build(4)
    with standing_still(module):
        assert module.momentum == 0
    assert module.momentum == BatchNorm().momentum > 0
