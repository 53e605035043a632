"""The contract of rollouts: log p that the sampler tells is log p that a training forward pass computes."""

from __future__ import annotations

from copy import deepcopy

import torch

from anyformer.generation.rollouts import Rollouts, check_rollouts, sampled
from anyformer.generation.sampled import from_bits, sampled_log_p, sampled_scores
from anyformer.model import Architecture
from anyformer.testing.models import looked_at
from anyformer.testing.traits import reads_prefix

FACTOR = 4
"""How many times the error of the training forward pass against fp64 the difference may be."""
PROMPTS = ([1, 2, 3, 4, 3], [5, 1])
GROUP, TOKENS = 2, 6
SHAPED = Rollouts(temperature=0.8, top_p=0.9)


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
