"""Speculative decoding: a drafter proposes several tokens, and one pass of the model tells which of them it would have given.

The tokens have exactly the model's distribution (Leviathan et al. 2022, arXiv 2211.17192; Chen et al. 2023, arXiv 2302.01318).
A proposal x drawn from q is taken with the probability min(1, p(x) / q(x)), and else a token of the distribution max(p - q, 0)
takes its place. Greedy tokens, and those proposed without a draw, are the model's own choice with the same draws as without
speculation: a proposal is taken where it is that choice, so the text stays the same, up to the rounding of products of several
rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from anyformer.describe import InputError
from anyformer.generation.chances import Token, chances
from anyformer.generation.checks import check
from anyformer.generation.decode import Step, decode
from anyformer.generation.drafting import Drafter, Proposal
from anyformer.generation.prefixes import Prefixes
from anyformer.generation.reader import TextReader
from anyformer.generation.sampling import Sampling
from anyformer.model.transformer import Transformer
from anyformer.operations import Shape

TAKEN, INSTEAD = 2, 3
"""The sites of the draws by which a proposal is taken, and of the token that takes its place."""


@dataclass
class Acceptance:
    """What speculation has come to: tokens given after every prompt's first, passes of the model, tokens proposed and taken."""

    tokens: int = 0
    passes: int = 0
    proposed: int = 0
    taken: int = 0

    def __str__(self) -> str:
        rate = self.tokens / max(self.passes, 1)
        return f"{rate:.2f} tokens a pass of the model; {self.taken:,} of {self.proposed:,} proposed tokens taken"


@torch.inference_mode()
def speculated(
    model: Transformer,
    prompts: Sequence[Sequence[int]],
    drafter: Drafter,
    *,
    sampling: Sampling,
    max_tokens: int,
    ended: Callable[[int], bool],
    ends: Sequence[int] = (),
    start: int | None = None,
    step: Step = decode,
    multiple: int = 1,
    acceptance: Acceptance | None = None,
    likeliest: int | None = None,
) -> Iterator[list[Token]]:
    """The tokens of one prompt after the other; a row ends at `max_tokens`, or when `ended` of its number is true.

    `drafter` has checked that it fits, and `check_verifies` the model. `acceptance` is told what came of it; other arguments as
    in `served`.
    """
    check(model, prompts, max_tokens, start, batch=1)
    counts = acceptance or Acceptance()
    for row, prompt in enumerate(prompts):
        reader = TextReader(model, max_tokens + (len(prompt) if start is None else 1), step, multiple)
        rows = torch.tensor([row], device=model.device)
        texts = Prefixes.begun([prompt], start, model.device, ends=ends, most=max_tokens) if sampling.reads else None
        logits = reader.begin(prompt, start)
        chosen = sampling.choose(logits, rows, 0, texts)
        first = int(chosen)
        yield [Token(row, first, chances(logits, chosen, likeliest)[0])]
        text, made = [*reader.tokens, first], 1
        if made == max_tokens or ended(row):
            continue
        if texts is not None:
            texts.add(chosen)
        proposer = drafter.begin(prompt, start, row, sampling, max_tokens)
        while made < max_tokens and not ended(row):
            proposal = proposer.propose(text, made, max_tokens - made - 1)
            if proposal.tokens:
                reader.mark(1 + len(proposal.tokens))
            before = reader.passes
            logits = reader.read([text[-1], *proposal.tokens])
            given = accepted(proposal, logits, sampling, row, made, texts)
            text += given
            reader.back(len(text) - 1)
            counts.passes += reader.passes - before
            counts.proposed += len(proposal.tokens)
            counts.taken += len(given) - 1
            found = torch.tensor(given, device=logits.device)
            for place, chance in enumerate(chances(logits[: len(given)], found, likeliest)):
                token = found[place : place + 1]
                made += 1
                counts.tokens += 1
                yield [Token(row, int(token), chance)]
                if ended(row):
                    break
                if texts is not None:
                    texts.add(token)


def check_verifies(model: Transformer, length: int) -> None:
    """Refuse a model that several tokens at once give other logits than one after the other, in texts of up to `length`."""
    reasons = model.architecture.folded_cost(Shape()).breaks("cached", length=length, read_again=True)
    if reasons:
        raise InputError(
            f"proposed tokens are read together, and this architecture then gives others: {'; '.join(reasons)}. "
            f"Leave the draft out"
        )


def accepted(
    proposal: Proposal, logits: Tensor, sampling: Sampling, row: int, index: int, texts: Prefixes | None = None
) -> list[int]:
    """The proposed tokens that are taken, and the one after them, which is the model's own.

    `logits` (1 + k, V): the model's before each of k proposed tokens and after the last; `index`: the number of the first;
    `texts`: the text before it.
    """
    ahead = None if texts is None else texts.ahead(proposal.tokens)
    count, indices = len(proposal.tokens), range(index, index + len(logits))
    rows = torch.full((len(logits),), row, device=logits.device)
    if proposal.drawn_from is None:
        own = sampling.choose(logits, rows, indices, ahead).tolist()
        same = next((at for at in range(count) if own[at] != proposal.tokens[at]), count)
        return own[: same + 1]
    model, draft = sampling.distribution(logits, ahead, indices).double(), proposal.drawn_from.double()
    proposed = torch.tensor(proposal.tokens, device=logits.device)[:, None]
    p, q = model[:count].gather(1, proposed), draft.gather(1, proposed)
    refused = (sampling.uniform(rows[:count], indices[:count], TAKEN) * q >= p)[:, 0].tolist()
    taken = next((at for at in range(count) if refused[at]), count)
    if taken == count:
        return [*proposal.tokens, int(sampling.draw(model[-1:], sampling.uniform(rows[:1], indices[-1])))]
    rest = (model[taken] - draft[taken]).clamp(min=0)[None]
    # Where both are equal to rounding, nothing is left, and either is right.
    rest = rest if bool(rest.sum() > 0) else model[taken][None]
    instead = sampling.draw(rest, sampling.uniform(rows[:1], indices[taken], INSTEAD))
    return [*proposal.tokens[:taken], int(instead)]
