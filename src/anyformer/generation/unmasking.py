"""Text from a model that fills masks: every position starts as a mask, and the most certain ones are revealed step by step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from anyformer.describe import InputError
from anyformer.generation.sampling import Sampling
from anyformer.model.transformer import Transformer


@torch.inference_mode()
def unmasked(
    model: Transformer,
    prompts: Sequence[Sequence[int]],
    *,
    mask: int,
    sampling: Sampling,
    max_tokens: int,
    steps: int | None = None,
    block: int | None = None,
    first: int = 0,
) -> Iterator[Tensor]:
    """The text behind each prompt, (B, max_tokens), after every step; `mask` where nothing is revealed yet.

    Positions are revealed block by block from the left, `block` at a time (by default all at once). In every step of a block
    the
    model proposes a token for each of its masks, and those proposed with the greatest probability stay (Nie et al. 2025,
    LLaDA, arXiv
    2502.09992, appendix B.4: low-confidence remasking). `steps`: calls of the model in all, by default one per position.
    `first`: the number of the first prompt, by which draws are keyed.
    """
    check_unmasked(model, prompts, max_tokens, steps, block)
    size = block or max_tokens
    blocks = [(start, min(start + size, max_tokens)) for start in range(0, max_tokens, size)]
    shares = _spread(steps or max_tokens, len(blocks))
    rows = torch.arange(first, first + len(prompts), device=model.device)
    longest = max(map(len, prompts))
    tokens = torch.full((len(prompts), longest + max_tokens), mask, device=model.device)
    padding = torch.zeros_like(tokens, dtype=torch.bool)
    for row, prompt in enumerate(prompts):
        # Prompts end together, so that every row's text stands in the same places.
        padding[row, : longest - len(prompt)] = True
        tokens[row, longest - len(prompt) : longest] = torch.tensor(list(prompt), device=model.device)
    done = 0
    for (start, stop), share in zip(blocks, shares, strict=True):
        here = slice(longest + start, longest + stop)
        for count in _spread(stop - start, share):
            logits = model(tokens, padding=padding if bool(padding.any()) else None)[:, here]
            proposed, certain = _proposed(logits, mask, sampling, rows, done)
            certain = certain.masked_fill(tokens[:, here] != mask, -torch.inf)
            chosen = certain.topk(count, -1).indices
            tokens[:, here] = tokens[:, here].scatter(1, chosen, proposed.gather(1, chosen))
            done += 1
            yield tokens[:, longest:]


def _proposed(logits_BTV: Tensor, mask: int, sampling: Sampling, rows_B: Tensor, step: int) -> tuple[Tensor, Tensor]:
    """A token for every position, and its probability; the mask itself is never proposed."""
    batch, length, vocab = logits_BTV.shape
    logits = logits_BTV.float().index_fill(2, torch.tensor([mask], device=logits_BTV.device), -torch.inf)
    places = (rows_B[:, None] * length + torch.arange(length, device=rows_B.device)).flatten()
    proposed = sampling.choose(logits.view(-1, vocab), places, step).view(batch, length)
    certain = logits.softmax(-1).gather(2, proposed[:, :, None])[:, :, 0]
    return proposed, certain


def _spread(total: int, parts: int) -> list[int]:
    """`total` in so many whole parts, as equal as can be, the greater ones first."""
    return [total // parts + (part < total % parts) for part in range(parts)]


def check_unmasked(
    model: Transformer, prompts: Sequence[Sequence[int]], max_tokens: int, steps: int | None, block: int | None
) -> None:
    """Refuse prompts and settings that `unmasked` cannot do."""
    if not prompts:
        raise InputError("give at least one prompt; an empty one starts from nothing")
    if max_tokens < 1:
        raise InputError(f"max_tokens should be at least 1, got {max_tokens}")
    if block is not None and block < 1:
        raise InputError(f"block = {block} should be at least 1 position")
    blocks = -(-max_tokens // (block or max_tokens))
    if steps is not None and not blocks <= steps <= max_tokens:
        raise InputError(f"steps = {steps} should be from {blocks} (one per block) to {max_tokens} (one per token)")
    longest = model.architecture.output_stack.max_length
    length = max(map(len, prompts)) + max_tokens
    if longest is not None and length > longest:
        raise InputError(f"prompt and text reach {length} positions, and the position table ends at {longest}; shorten one")
