"""Rollouts: what is sampled, its log p, its support; over the zoo the contract that the training forward pass says the same."""

from __future__ import annotations

import itertools

import pytest
import torch
from zoo import ZOO

import effort
from anyformer.catalogue import architecture
from anyformer.generation.rollouts import ALL, Rollouts, SampledAnswers, check_rollouts, sampled
from anyformer.generation.sampled import as_bits, from_bits, sampled_log_p, sampled_scores
from anyformer.generation.sampling import Sampling
from anyformer.model.transformer import build
from anyformer.objectives.policy import entropies
from anyformer.parts.experts.router import Router
from anyformer.parts.experts.selection import Selection
from anyformer.parts.sublayer import Sublayer
from anyformer.testing.rollouts import rollouts_are_the_training_forward, rollouts_send_tokens_to_the_experts_of_sampling
from anyformer.testing.traits import decodes_tokens
from covering import cover, kinds_of, moved, others_slow, remembering

OWING = {name: each for name, each in ZOO.items() if decodes_tokens(each)}


def asked():
    everyday = cover(OWING, remembering)
    for name in OWING:
        if name in everyday:
            yield name
        elif effort.slow_too:
            yield pytest.param(name, marks=pytest.mark.slow)


@pytest.mark.parametrize("name", list(asked()))
def test_the_sampler_and_a_training_forward_pass_agree(name):
    rollouts_are_the_training_forward(OWING[name])


def routed():
    """Architectures with routers whose choices do not depend on the rows beside."""
    choosing = {name: each for name, each in OWING.items() if any(kind is Router for kind, *_ in moved(each)) and suits(each)}
    return others_slow(choosing, kinds_of(Sublayer, Selection))


def suits(architecture):
    try:
        check_rollouts(architecture)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("name", routed())
def test_tokens_go_to_the_experts_that_they_went_to_when_they_were_sampled(name):
    rollouts_send_tokens_to_the_experts_of_sampling(OWING[name])


@pytest.fixture(scope="module")
def model():
    return build(architecture("llama-2-7b", tiny=True), seed=3).eval()


PROMPTS = [[5, 6, 7], [8, 9]]


def test_what_is_sampled_follows_seeds_alone(model):
    rollouts = Rollouts(temperature=0.9, top_k=40)
    both = sampled(model, PROMPTS, rollouts=rollouts, seeds=range(6), most=[5, 5], group=3)
    alone = sampled(model, PROMPTS[1:], rollouts=rollouts, seeds=range(3, 6), most=[5], group=3)
    few = sampled(model, PROMPTS, rollouts=rollouts.but(at_once=1), seeds=range(6), most=[5, 5], group=3)
    assert torch.equal(both.tokens[3:], alone.tokens)
    assert torch.equal(both.tokens, few.tokens)
    assert not torch.equal(both.tokens[0], both.tokens[1])
    torch.testing.assert_close(both.log_p, few.log_p, atol=1e-5, rtol=0)


def test_answers_end_with_an_end_or_where_their_prompt_has_no_more_room(model):
    free = sampled(model, PROMPTS, rollouts=Rollouts(), seeds=range(4), most=[6, 2], group=2)
    assert (free.tokens >= 0).sum(1).tolist() == [6, 6, 2, 2]
    assert not free.ended.any()
    end = int(free.tokens[0, 2])
    cut = sampled(model, PROMPTS, rollouts=Rollouts(), seeds=range(4), most=[6, 2], group=2, ends=[end])
    first = free.tokens[0].tolist().index(end)
    assert cut.tokens[0, : first + 1].tolist() == free.tokens[0, : first + 1].tolist()
    assert (cut.tokens[0, first + 1 :] == -1).all()
    assert bool(cut.ended[0])
    assert (cut.log_p[cut.tokens < 0] == 0).all()


def test_log_p_is_of_the_distribution_that_is_sampled_from():
    """Against Sampling's own probabilities, from which tokens are drawn."""
    logits = torch.randn(7, 50, generator=torch.Generator().manual_seed(1)) * 3
    for temperature, top_k, top_p in itertools.product((1.0, 0.6), (None, 5), (None, 0.8)):
        rollouts = Rollouts(temperature=temperature, top_k=top_k, top_p=top_p)
        choice = rollouts.sampling(0)
        tokens = choice.choose(logits, torch.arange(7), 0)
        kept = choice.scores(logits).isfinite()
        assert rollouts.cuts == (not kept.all())
        scores = sampled_scores(logits, temperature, from_bits(as_bits(kept), 50))
        wanted = choice.distribution(logits).gather(1, tokens[:, None])[:, 0].log()
        torch.testing.assert_close(sampled_log_p(scores, tokens), wanted, atol=1e-6, rtol=1e-6)


def test_log_p_has_the_same_bits_in_rows_and_in_a_batch():
    logits = torch.randn(4, 3, 33, generator=torch.Generator().manual_seed(1))
    tokens = torch.arange(12).view(4, 3)
    whole = sampled_log_p(sampled_scores(logits, 0.7), tokens)
    pairs = zip(logits.unbind(1), tokens.unbind(1), strict=True)
    rows = torch.stack([sampled_log_p(sampled_scores(z, 0.7), y) for z, y in pairs], 1)
    assert torch.equal(whole, rows)


def test_gradients_pass_through_kept_tokens_alone():
    logits = torch.randn(2, 4, 9, generator=torch.Generator().manual_seed(1), requires_grad=True)
    kept = torch.rand(2, 4, 9, generator=torch.Generator().manual_seed(2)) < 0.6
    tokens = kept.int().argmax(-1)
    scores = sampled_scores(logits, 0.5, kept)
    (sampled_log_p(scores, tokens).sum() + entropies(scores).sum()).backward()
    assert logits.grad.isfinite().all()
    assert (logits.grad[~kept] == 0).all()
    twin = logits.detach().clone().requires_grad_()
    logs = torch.where(kept, twin / 0.5, -1e30).log_softmax(-1)
    (logs.gather(-1, tokens[..., None]).sum() - (logs.exp() * torch.where(kept, logs, 0)).sum()).backward()
    torch.testing.assert_close(logits.grad, twin.grad, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("size", [1, 8, 13])
def test_bits_hold_what_they_are_given(size):
    kept = torch.rand(3, 2, size, generator=torch.Generator().manual_seed(size)) < 0.5
    assert torch.equal(from_bits(as_bits(kept), size), kept)
    assert from_bits(torch.full((1, -(-size // 8)), ALL, dtype=torch.uint8), size).all()


def test_joined_answers_are_padded():
    one = SampledAnswers(torch.tensor([[1, 2]]), torch.zeros(1, 2), None, torch.tensor([True]))
    two = SampledAnswers(torch.tensor([[3]]), torch.zeros(1, 1), None, torch.tensor([False]))
    joined = SampledAnswers.joined([one, two])
    assert joined.tokens.tolist() == [[1, 2], [3, -1]]
    assert joined.ended.tolist() == [True, False]


def test_what_decodes_otherwise_than_it_trains_is_refused():
    with pytest.raises(ValueError, match="order of the whole batch"):
        check_rollouts(ZOO["capacity"])


def test_a_temperature_is_above_zero():
    with pytest.raises(ValueError, match=r"temperature"):
        Rollouts(temperature=0)
    assert Sampling(temperature=0).greedy
