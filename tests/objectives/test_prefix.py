"""The prefix objective: next tokens after a prefix that is read both ways."""

from __future__ import annotations

import pytest
import torch

from anyformer.data import IGNORED
from anyformer.describe import change
from anyformer.model.transformer import build
from anyformer.objectives import CausalObjective, PrefixObjective, loss_of
from anyformer.parts import Causal, Prefix
from anyformer.plan import Plan
from objectives.windows import setting, small, whole

LENGTH, PLAN = 30, Plan(precision="fp32", compile="off")


@pytest.fixture
def model():
    return build(small("prefix"), PLAN, seed=1).eval()


def examples_of(objective, rows=(0, 1, 2, 3)):
    return objective.examples(whole(objective, LENGTH, list(rows)), setting(objective, LENGTH))


def test_targets_are_those_of_next_token_prediction_after_the_prefix():
    found, plain = examples_of(PrefixObjective()), examples_of(CausalObjective())
    assert torch.equal(found.tokens, plain.tokens)
    for row, prefix in enumerate(found.prefix.tolist()):
        assert found.targets[row].tolist() == [IGNORED] * (prefix - 1) + plain.targets[row, prefix - 1 :].tolist()


def test_prefixes_are_drawn_evenly_between_two_shares():
    objective = PrefixObjective(shortest=0.2, longest=0.6)
    prefixes = examples_of(objective, range(4000)).prefix
    assert (prefixes.min(), prefixes.max()) == (6, 17)
    counts = prefixes.bincount(minlength=LENGTH)[6:18].float() / 4000
    assert counts.tolist() == pytest.approx([1 / 12] * 12, abs=0.02)


def test_a_row_has_the_prefix_it_had_in_earlier_versions():
    """A run that a later version resumes goes on as it began."""
    assert examples_of(PrefixObjective(), range(6)).prefix.tolist() == [15, 8, 5, 8, 24, 18]


def test_a_prefix_of_one_token_is_next_token_prediction(model):
    """The same weights under a causal mask: the same loss."""
    objective = PrefixObjective(shortest=0.0, longest=0.0)
    causal = build(change(small("prefix"), "decoder.layer.attention.mask", Causal()), PLAN, seed=1).eval()
    causal.load_state_dict(model.state_dict())
    with torch.no_grad():
        found = loss_of(objective, model, examples_of(objective), None)
        plain = loss_of(CausalObjective(), causal, examples_of(CausalObjective()), None)
    torch.testing.assert_close(found, plain)


def test_the_loss_is_that_of_the_rest_a_token_at_a_time(model):
    """Each token after the prefix from a call that ends before it, the prefix read both ways."""
    objective = PrefixObjective()
    examples = examples_of(objective, [0, 1])
    expected = 0.0
    with torch.no_grad():
        for row, prefix in enumerate(examples.prefix.tolist()):
            for place in range(prefix - 1, LENGTH):
                logits = model(examples.tokens[row : row + 1, : place + 1], prefix=examples.prefix[row : row + 1])
                expected -= logits[0, -1].log_softmax(-1)[examples.targets[row, place]].item()
        found = loss_of(objective, model, examples, None).item()
    assert found == pytest.approx(expected, rel=1e-5)
    assert examples.count == sum(LENGTH - prefix + 1 for prefix in examples.prefix.tolist())


def test_the_prefix_is_read_both_ways_and_the_rest_is_not(model):
    examples = examples_of(PrefixObjective(shortest=0.5, longest=0.5), [0])
    prefix = int(examples.prefix[0])

    def features(place: int) -> torch.Tensor:
        tokens = examples.tokens.clone()
        tokens[0, place] = (tokens[0, place] + 1) % 256
        return model.features(tokens, prefix=examples.prefix)[0]

    with torch.no_grad():
        before = model.features(examples.tokens, prefix=examples.prefix)[0]
        inside, after = features(prefix - 1), features(prefix)
    assert (inside[0] != before[0]).any()
    assert torch.equal(after[:prefix], before[:prefix])


def test_what_cannot_be_trained_so_is_refused():
    with pytest.raises(ValueError, match="needs attention that reads a prefix both ways"):
        PrefixObjective().check(small("gpt2"))
    with pytest.raises(ValueError, match="which this architecture lets every token see"):
        PrefixObjective().check(small("bert-base-uncased"))
    with pytest.raises(ValueError, match="sees the prefix alone: give it the mask"):
        PrefixObjective().check(change(small("prefix"), "decoder.layer.attention.mask", Prefix()))
    with pytest.raises(ValueError, match="a mask of this architecture reads prompts as one"):
        CausalObjective().check(small("prefix"))
    with pytest.raises(ValueError, match=r"shortest = 0.9 is more than longest = 0.1"):
        PrefixObjective(shortest=0.9, longest=0.1)
