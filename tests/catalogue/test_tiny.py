"""The tiny variant of every entry: small, of the same mechanisms, and alive."""

from __future__ import annotations

import re
from itertools import islice

import pytest
import torch

from anyformer.catalogue import architecture, listing
from anyformer.catalogue.columns import columns
from anyformer.generation import Sampling, continuations
from anyformer.model import Architecture, InputError, build
from anyformer.parts import Proportional, Rotary
from anyformer.tally import Shape

ENTRIES = {entry.name: entry for entry in listing()}
DISTINCT = {architecture(name, tiny=True): name for name in reversed(ENTRIES)}
"""Each tiny variant once, with the first entry that has it."""
ALIVE = {name: made for made, name in DISTINCT.items()}
LEARNERS = (
    "gpt-1", "gpt-j-6b", "opt-125m", "bloom-560m", "lamda-137b", "palm-8b", "gopher-44m", "llama-4-maverick", "dbrx",
    "qwen3-next-80b-a3b", "gemma-2-27b", "gemma-3-4b", "phi-3-small", "phi-4-mini", "olmo-2-7b", "granite-3.1-1b-a400m",
    "command-r-plus", "deepseek-v3", "kimi-linear-48b-a3b", "minimax-text-01", "lfm2-8b-a1b", "grok-1", "hunyuan-7b",
)  # fmt: skip
"""One of each kind of block."""


def reaches(words: str) -> set[str]:
    return set(re.sub(r" \d+", "", words).split("+"))


def inputs(made: Architecture, length: int = 24) -> tuple[torch.Tensor, ...]:
    """Tokens longer than every window and trained length; twice for an encoder-decoder."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(made.embedding.vocab, (2, length), generator=generator)
    return (tokens, tokens) if made.shape_of_model == "encoder-decoder" else (tokens,)


@pytest.mark.parametrize("name", ENTRIES)
def test_a_tiny_variant_keeps_every_mechanism(name):
    made, there = architecture(name, tiny=True), ENTRIES[name].columns
    here = columns(made)
    for column in ("shape", "norm", "placement", "wiring", "position", "activation", "attention", "tricks"):
        assert getattr(here, column) == getattr(there, column), column
    assert reaches(here.reach) == reaches(there.reach)
    assert here.chosen == min(there.chosen, 2)
    assert here.parameters < 32_000
    assert 2 <= here.layers <= 8


def test_parts_of_heads_stay_parts_and_factors_fit_the_pairs():
    made = architecture("phi-4-mini", tiny=True)
    rotary = made.decoder.variants["layer"].branches["attention"].sublayer.rotary
    assert isinstance(rotary, Rotary)
    assert 0 < rotary.fraction < 1
    assert len(rotary.scaling.long) == rotary.rotated(4) // 2
    assert not isinstance(rotary.scaling, Proportional)


def test_variants_that_differ_in_numbers_alone_are_one():
    assert architecture("minimax-text-01", tiny=True).decoder.layers == ("lightning_0", "softmax")
    assert architecture("gemma-3-27b", tiny=True).decoder.layers == ("local", "everywhere")
    assert architecture("gpt2", tiny=True).decoder.order == "layer*2"


def test_roots_of_the_width_follow_it():
    assert architecture("palm-540b", tiny=True).head.scale == 16**-0.5
    assert architecture("gemma-3-27b", tiny=True).embedding.scale == 4.0
    assert architecture("granite-3.3-8b", tiny=True).embedding.scale == 12.0


def test_tiny_of_tiny_changes_nothing():
    from anyformer.catalogue.tiny import tiny

    for made in islice(DISTINCT, 20):
        assert tiny(made) == made


@pytest.mark.slow
@pytest.mark.parametrize("name", ALIVE)
def test_every_tiny_variant_runs_forward_and_backward(name):
    made = ALIVE[name]
    model = build(made, seed=0).eval()
    logits = model(*inputs(made))
    assert logits.shape == (2, 24, made.output_embedding.vocab)
    logits.float().square().mean().backward()
    for path, weight in model.named_parameters():
        assert not weight.requires_grad or weight.grad is None or weight.grad.isfinite().all(), path
    assert any(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in model.parameters())


@pytest.mark.slow
@pytest.mark.parametrize("name", ALIVE)
def test_every_tiny_variant_generates_what_the_whole_computes(name):
    made = ALIVE[name]
    model = build(made, seed=0).eval()
    prompt = inputs(made, 9)[0][0].tolist()
    two = made.shape_of_model == "encoder-decoder"
    refused = made.cost(Shape(source=1)).breaks("causal")
    if refused:
        with pytest.raises(InputError, match=refused[0]):
            next(continuations(model, [prompt], sampling=Sampling(temperature=0), max_tokens=1))
        return
    found = continuations(model, [prompt], sampling=Sampling(temperature=0), max_tokens=10, start=0 if two else None)
    given = torch.stack(list(found), 1)[0].tolist()
    assert len(given) == 10
    with torch.inference_mode():
        if two:
            logits = model(torch.tensor([prompt]), torch.tensor([[0, *given[:-1]]]))[0]
        else:
            logits = model(torch.tensor([prompt + given[:-1]]))[0, len(prompt) - 1 :]
    best = logits.max(-1).values
    taken = logits.gather(-1, torch.tensor(given)[:, None])[:, 0]
    torch.testing.assert_close(taken, best, atol=1e-4, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
def test_tiny_variants_learn(name):
    made = architecture(name, tiny=True)
    model = build(made, seed=0).eval()  # eval: dropout would hide a small fall
    (tokens,) = inputs(made)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(40):
        logits = model(tokens[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0], losses[:: len(losses) - 1]
