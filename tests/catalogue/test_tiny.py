"""The tiny variant of every entry: small, of the same mechanisms, and alive."""

from __future__ import annotations

import re
from copy import deepcopy
from itertools import islice, product

import pytest
import torch

from anyformer.catalogue import architecture, listing
from anyformer.catalogue.columns import columns
from anyformer.costs.flop_counter import MetaFlops
from anyformer.describe import InputError
from anyformer.generation import Sampling, continuations, generating
from anyformer.generation.steps import stepper
from anyformer.model import Architecture
from anyformer.model.transformer import build
from anyformer.operations import Shape
from anyformer.parts import Proportional, Rotary
from anyformer.parts.call.reports import Auxiliary
from anyformer.parts.call.shared import slot_bytes
from anyformer.parts.sublayer import Sublayer
from anyformer.plan import Plan
from covering import cover, covering, kinds_of, others_slow, remembering, rest_slow
from covering import kinds as kinds_of_parts

ENTRIES = {entry.name: entry for entry in listing()}
DISTINCT = {architecture(name, tiny=True): name for name in reversed(ENTRIES)}
"""Each tiny variant once, with the first entry that has it."""
ALIVE = {name: made for made, name in DISTINCT.items()}
LEARNERS = (
    "gpt-1", "gpt-j-6b", "opt-125m", "bloom-560m", "lamda-137b", "palm-8b", "gopher-44m", "llama-4-maverick", "dbrx",
    "qwen3-next-80b-a3b", "gemma-2-27b", "gemma-3-4b", "phi-3-small", "phi-4-mini", "olmo-2-7b", "granite-3.1-1b-a400m",
    "command-r-plus", "deepseek-v3", "kimi-linear-48b-a3b", "minimax-text-01", "lfm2-8b-a1b", "grok-1", "hunyuan-7b",
    "bert-base-uncased", "albert-base-v2", "electra-base", "deberta-base", "deberta-v3-base", "sentence-bert-base",
    "vit-base-16", "bart-base", "t5-small", "switch-base-8", "gshard-600b", "whisper-tiny", "perceiver-imagenet",
    "set-transformer-modelnet40", "gpt-oss-20b", "gemma-4-31b", "phi-3.5-moe", "opt-350m", "minimax-m2", "blip-caption-base",
    "llama-3.2-11b-vision",
)  # fmt: skip
"""One of each kind of block."""


def kinds(words: str) -> set[str]:
    return set(re.sub(r" \d+", "", words).split("+"))


def generative(made: Architecture) -> bool:
    """Whether it gives logits of a next token."""
    if made.decoder is None or made.head is None or made.latents is not None:
        return False
    return not made.cost(Shape(source=1)).breaks("stepwise")


GENERATIVE = {name: made for name, made in ALIVE.items() if generative(made)}


class Task:
    """One batch, longer than every window and trained length, and what the model is to say of it."""

    def __init__(self, made: Architecture, length: int = 24) -> None:
        generator = torch.Generator().manual_seed(0)
        self.given = [made.embedding.example(2, length)]
        self.targets = torch.randn(made.outputs, generator=generator)
        self.tokens = None
        if made.decoder is not None and made.head is not None and made.latents is None:
            tokens = made.output_embedding.example(2, length)
            self.given = [*(self.given if made.two_inputs else ()), tokens[:, :-1]]
            self.tokens = tokens[:, 1:]

    def loss(self, model: torch.nn.Module) -> torch.Tensor:
        """Cross-entropy of the next token; of a model that gives none, the distance to some vector at every position."""
        logits = model(*self.given).float()
        if self.tokens is None:
            return (logits - self.targets).square().mean()
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), self.tokens.flatten())


def test_a_tiny_variant_keeps_every_mechanism():
    for name, entry in ENTRIES.items():
        here, there = columns(architecture(name, tiny=True)), entry.columns
        for column in ("shape", "norm", "placement", "wiring", "position", "activation", "attention", "stability"):
            assert getattr(here, column) == getattr(there, column), (name, column)
        assert kinds(here.window) == kinds(there.window), name
        assert here.chosen == min(there.chosen, 2), name
        assert here.parameters < max(36_000, 15_000 * here.layers), name
        assert 2 <= here.layers <= 8, name


def test_parts_of_heads_stay_parts_and_factors_fit_the_pairs():
    made = architecture("phi-4-mini", tiny=True)
    rotary = made.decoder.variants["layer"].branches["attention"].sublayer.place["rotary"]
    assert isinstance(rotary, Rotary)
    assert 0 < rotary.fraction < 1
    assert len(rotary.scaling.long) == rotary.rotated(4) // 2
    assert not isinstance(rotary.scaling, Proportional)


def test_variants_that_differ_in_numbers_alone_are_one():
    assert architecture("minimax-text-01", tiny=True).decoder.layers == ("lightning", "softmax")
    assert architecture("gemma-3-27b", tiny=True).decoder.layers == ("local", "global")
    assert architecture("gpt2", tiny=True).decoder.order == "layer*2"


def test_of_layers_that_are_passed_again_together_alike_ones_are_one():
    hrm, perceiver, zamba = (
        architecture(name, tiny=True).decoder for name in ("hrm-text-1b", "perceiver-imagenet", "zamba2-2.7b")
    )
    assert [name for name in hrm.layers if name in hrm.shared_weights] == ["low_0", "low_15", "high_0", "high_15"]
    dory, inkling = (architecture(name, tiny=True).decoder for name in ("dory-4b", "inkling-2-mini"))
    assert dory.order == "local full entry again looped_0 looped_3"
    assert inkling.order == "local full (looped_6 looped_11)*2"
    assert (inkling.streams.before, inkling.streams.looped, inkling.streams.passes, inkling.streams.count) == (2, 2, 2, 7)
    assert perceiver.layers == ("first_read", "latent_0", "read")
    assert zamba.shared_weights == ("shared_0", "shared_1")


def test_roots_of_the_width_follow_it():
    palm, gemma, granite = (architecture(name, tiny=True) for name in ("palm-540b", "gemma-3-27b", "granite-3.3-8b"))
    assert palm.resolved().head.scale == build(palm).head.scale == 16**-0.5
    assert gemma.resolved().embedding.scale == build(gemma).embedding.scale == 4.0
    assert granite.embedding.scale == 12.0


def test_tiny_of_tiny_changes_nothing():
    from anyformer.resizing.tiny import tiny

    for made in islice(DISTINCT, 20):
        assert tiny(made) == made


@pytest.mark.parametrize("name", others_slow(ALIVE, kinds_of_parts))
def test_every_tiny_variant_trains(name):
    """A few steps on one batch, with dropout and all that is random in training: the loss falls, and gradients are finite."""
    made = ALIVE[name]
    model = build(made, seed=0)
    task = Task(made)
    before = task.loss(model.eval()).item()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(4):
        optimiser.zero_grad()
        task.loss(model.train()).backward()
        for path, weight in model.named_parameters():
            assert weight.grad is None or weight.grad.isfinite().all(), path
        optimiser.step()
    after = task.loss(model.eval()).item()
    assert after < before


@pytest.mark.parametrize("name", others_slow(ALIVE, kinds_of(Sublayer)))
def test_declared_costs_of_every_tiny_variant_are_those_of_its_module(name):
    """Parameters, FLOPs forward and backward as PyTorch counts them, and bytes of decode state: difference 0. Of other kinds of
    parts than sublayers the contracts ask it in each run."""
    made, rows, length, plan = ALIVE[name], 2, 24, Plan(precision="fp32")
    shape = Shape(batch=rows, length=length, source=length if made.two_inputs else 0)
    declared = made.cost(shape, plan)
    # A capacity that holds in training pads the rows of its experts: evaluation computes what is declared.
    model = build(made, plan, device="meta").eval()
    trained = made.trained_cost(Shape(source=1)).parameters
    assert trained == sum(weight.numel() for weight in model.parameters())
    given = [made.embedding.example(rows, length)]
    if made.two_inputs:
        given.append(made.output_embedding.example(rows, length, seed=1))
    with MetaFlops() as counter:
        auxiliary = Auxiliary()
        output = model(*(x.to("meta") for x in given), auxiliary=auxiliary)
        forward = counter.total
        index = [] if auxiliary.index is None else [auxiliary.index]
        torch.autograd.backward([output.float().sum(), *index])
    flops = declared.total_flops
    assert (flops.dense, flops.backward) == (forward, counter.total - forward)
    if generative(made):
        state = model.state(rows, length, source=shape.source)
        room = length + (shape.source if made.source == "prefix" else 0)
        assert state.nbytes == declared.total_state_bytes + slot_bytes(rows, room)


@pytest.mark.parametrize("name", others_slow(GENERATIVE, remembering))
def test_every_generative_variant_generates_what_the_whole_computes(name):
    made, count = ALIVE[name], 4
    model = build(made, seed=0).eval()
    source, prompt = made.embedding.example(1, 9), [[5, 3, 7, 2, 2, 9, 1]]
    prompt = [[0]] if made.two_inputs else prompt
    sources = source if made.two_inputs else None
    found = continuations(model, prompt, sampling=Sampling(temperature=0), max_tokens=count, source=sources)
    given = torch.stack(list(found), 1)[0].tolist()
    assert len(given) == count
    whole = torch.tensor([prompt[0] + given[:-1]])
    with torch.inference_mode():
        logits = model(source, whole) if made.two_inputs else model(whole)
    logits = logits[0, -count:]
    best = logits.max(-1).values
    taken = logits.gather(-1, torch.tensor(given)[:, None])[:, 0]
    torch.testing.assert_close(taken, best, atol=1e-4, rtol=1e-4)


LAYOUTS = {
    "oneDNN's order": (
        torch.float32,
        {"generation.weights.multiplies_tiles": False, "quantising.products.multiplies_tiles": False},
    ),
    "rows for tiles": (
        torch.bfloat16,
        {"generation.weights.multiplies_tiles": True, "quantising.products.multiplies_tiles": True},
    ),
    "without oneDNN": (torch.float32, {"generation.weights.multiplies_tiles": False, "quantising.products.packs": False}),
}
"""How matrices are held: the type that they are stored in, and what a processor answers."""


BY_TURNS = covering(sorted(cover(GENERATIVE, remembering)), LAYOUTS, together=1)
"""Every kind that a decode state depends on, each in one layout; of every kind of part tests/generation asks the layouts."""


@pytest.mark.parametrize(("name", "layout"), rest_slow(product(GENERATIVE, LAYOUTS), BY_TURNS))
def test_every_generative_variant_generates_as_the_command_does_on_every_processor(name, layout, monkeypatch):
    """Weights are held for generating and steps recorded; the tokens are those of a pass of the plain model over the text.

    In 16 bits products round, so that of those texts only the number of tokens is asked.
    """
    made, count = ALIVE[name], 4
    plain = build(made, seed=0).eval()
    sources, prompts = None, [[5, 3, 7, 2, 2, 9, 1], [4, 8]]
    if made.two_inputs:
        sources, prompts = made.embedding.example(2, 9), [[0], [0]]
    dtype, answers = LAYOUTS[layout]
    for question, answer in answers.items():
        monkeypatch.setattr(f"anyformer.{question}", lambda *asked, answer=answer: answer)
    model = generating(deepcopy(plain).to(dtype))
    step, multiple = stepper(count, None)
    given = sources.to(dtype) if sources is not None and sources.is_floating_point() else sources
    steps = continuations(
        model, prompts, sampling=Sampling(temperature=0), max_tokens=count, source=given, step=step, multiple=multiple
    )
    rows = torch.stack(list(steps), 1).tolist()
    assert [len(row) for row in rows] == [count, count]
    if dtype != torch.float32:
        return
    for number, (prompt, row) in enumerate(zip(prompts, rows, strict=True)):
        source = () if sources is None else (sources[number : number + 1],)
        with torch.inference_mode():
            logits = plain(*source, torch.tensor([prompt + row[:-1]]))[0, -count:]
        taken = logits.gather(-1, torch.tensor(row)[:, None])[:, 0]
        torch.testing.assert_close(taken, logits.max(-1).values, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", sorted(ALIVE.keys() - GENERATIVE.keys()))
def test_the_others_say_why_they_do_not_generate(name):
    with pytest.raises(InputError):
        next(continuations(build(ALIVE[name], seed=0).eval(), [[5, 3]], sampling=Sampling(temperature=0), max_tokens=1))


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
def test_tiny_variants_learn(name):
    made = architecture(name, tiny=True)
    model = build(made, seed=0).eval()  # eval: dropout would hide a small fall
    task = Task(made)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(40):
        optimiser.zero_grad()
        loss = task.loss(model)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0], losses[:: len(losses) - 1]
