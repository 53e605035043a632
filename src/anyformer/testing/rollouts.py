"""The contract of rollouts: log p that the sampler tells is log p that a training forward pass computes."""

from __future__ import annotations

from contextlib import ExitStack
from copy import deepcopy
from functools import partial

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from anyformer.generation.rollouts import Rollouts, check_rollouts, sampled
from anyformer.generation.sampled import from_bits, sampled_log_p, sampled_scores
from anyformer.model import Architecture
from anyformer.model.choosing import choice_layout
from anyformer.testing.models import looked_at
from anyformer.testing.traits import reads_prefix

FACTOR = 4
"""How many times the error of the training forward pass against fp64 the difference may be."""
PROMPTS = ([1, 2, 3, 4, 3], [5, 1])
GROUP, TOKENS = 2, 6
SHAPED = Rollouts(temperature=0.8, top_p=0.9)


ROUTED = "**.router.chosen"
"""The paths of the experts that layers choose."""


def rollouts_send_tokens_to_the_experts_of_sampling(architecture: Architecture) -> None:
    """A pass over sampled rows, by weights that have changed since, sends every token to the experts that it went to when the
    row was sampled, and has the logits of a pass in which these are put into every layer from outside."""
    model = looked_at(architecture)
    layout = choice_layout(model)
    seeds = range(GROUP * len(PROMPTS))
    found = sampled(model, PROMPTS, rollouts=SHAPED, seeds=seeds, most=[TOKENS] * len(PROMPTS), group=GROUP)
    assert found.chosen is not None, "experts that were chosen are noted"
    prompts = [prompt for prompt in PROMPTS for _ in range(GROUP)]
    lines = [torch.tensor([*prompt, *row.tolist()])[:-1] for prompt, row in zip(prompts, found.tokens, strict=True)]
    tokens, given_BTS = pad_sequence(lines, batch_first=True), found.chosen
    read_BT = torch.arange(tokens.shape[1]) < torch.tensor([[len(line)] for line in lines])
    assert torch.equal((given_BTS >= 0).all(-1), read_BT), "the experts of what was read, and of nothing else"
    prefix = {"prefix": torch.tensor([len(prompt) for prompt in prompts])} if reads_prefix(architecture) else {}
    with torch.no_grad():
        for weight in model.parameters():
            if weight.is_floating_point():
                weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)), alpha=0.3)
        with model.watch(ROUTED) as own:
            model(tokens, **prefix)
        with model.watch(ROUTED) as taken:
            replayed = model(tokens, **prefix, choices=layout.given(given_BTS))
        per_layer = dict(zip(own, (given_BTS[..., place].long() for place in layout.places.values()), strict=True))
        with ExitStack() as patches:
            for path, wanted_BTJ in per_layer.items():
                patches.enter_context(model.patch(path, partial(_where_read, read_BT, wanted_BTJ)))
            patched = model(tokens, **prefix)
    for path, wanted_BTJ in per_layer.items():
        assert torch.equal(taken[path][read_BT], wanted_BTJ[read_BT]), f"{path}: other experts than those of sampling"
    assert torch.equal(replayed[read_BT], patched[read_BT]), "other logits than of a model whose choices are replaced"


def _where_read(read_BT: Tensor, wanted_BTJ: Tensor, own_BTJ: Tensor) -> Tensor:
    return torch.where(read_BT[..., None], wanted_BTJ, own_BTJ)


def rollouts_are_the_training_forward(architecture: Architecture) -> None:
    """Rows of unequal prompts, sampled token by token from a distribution that top-p cuts, have the log-probabilities of one
    forward pass over the padded rows: the largest difference is at most `FACTOR` times this pass's own error against fp64."""
    try:
        check_rollouts(architecture)
    except ValueError:
        return
    model = looked_at(architecture)
    found = sampled(
        model, PROMPTS, rollouts=SHAPED, seeds=range(GROUP * len(PROMPTS)), most=[TOKENS] * len(PROMPTS), group=GROUP
    )
    assert found.kept is not None
    prompts = [prompt for prompt in PROMPTS for _ in range(GROUP)]
    length = max(map(len, prompts)) + TOKENS - 1
    tokens, targets = torch.zeros(len(prompts), length, dtype=torch.int64), torch.full((len(prompts), length), -1)
    told = torch.zeros(len(prompts), length)
    kept = torch.full((len(prompts), length, found.kept.shape[-1]), 255, dtype=torch.uint8)
    for row, prompt in enumerate(prompts):
        line = torch.tensor([*prompt, *found.tokens[row].tolist()])
        at = slice(len(prompt) - 1, len(prompt) - 1 + TOKENS)
        tokens[row, : len(line) - 1] = line[:-1]
        targets[row, at], told[row, at], kept[row, at] = found.tokens[row], found.log_p[row], found.kept[row]
    given = {"prefix": torch.tensor([len(prompt) for prompt in prompts])} if reads_prefix(architecture) else {}
    with torch.no_grad():
        logits, exact = model(tokens, **given), deepcopy(model).double()(tokens, **given)
    every = from_bits(kept, logits.shape[-1])
    own = sampled_log_p(sampled_scores(logits, SHAPED.temperature, every), targets)
    scores = (exact / SHAPED.temperature).masked_fill(~every, -torch.inf)
    true = scores.log_softmax(-1).gather(-1, targets.clamp(min=0)[..., None])[..., 0]
    error = float((own - torch.where(targets < 0, 0.0, true)).abs().max())
    rounding = torch.finfo(torch.float32).eps * float(own.abs().max())
    difference = float((own - told).abs().max())
    assert difference <= FACTOR * max(error, rounding), (
        f"log p of sampled tokens differs by {difference:.2e} from that of a forward pass, whose own error is {error:.2e}"
    )
