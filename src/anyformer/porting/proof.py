"""A derived family against a reference: the same weights, the logits, and the first place where they depart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import torch
from torch import Tensor, nn

from anyformer.describe import UserError
from anyformer.huggingface.convert import fill
from anyformer.huggingface.files import Stored
from anyformer.huggingface.verifying import TOLERANCE, example_of, output_of, target_of
from anyformer.model import Architecture
from anyformer.model.initialise import on_meta
from anyformer.model.transformer import Transformer
from anyformer.porting.explaining import Fit, explained
from anyformer.porting.factors import factors
from anyformer.porting.guesses import alternatives
from anyformer.porting.hint import Hint
from anyformer.porting.probes import Probe, ProbedRun, compared, gap, pairs_of, watched
from anyformer.porting.reference import TinyReference, without_marks
from anyformer.porting.tensors import FileModule

_LENGTH, _BATCH = 13, 2
_FOLLOWED = 3
"""Fits whose guesses are changed."""
_PAIRS, _STUCK = 120, 2
"""Pairs of guesses that are changed at once, and how often, at most."""
_NEARER = 0.6
"""A change that makes the first departure so many times as large is kept, although nothing more agrees."""


@dataclass(frozen=True)
class PortProof:
    """How a derived family compares: `logits`, the largest difference relative to the largest; `probes` in order.

    `failed`: why nothing could be compared. `taken`: the guesses that were changed for it, in words.
    """

    fit: Fit
    logits: float = float("inf")
    probes: tuple[Probe, ...] = ()
    failed: str = ""
    taken: tuple[str, ...] = field(default=())
    measured: tuple[Hint, ...] = ()
    """Factors that would explain the first place that departs."""

    @property
    def equal(self) -> bool:
        return self.logits <= TOLERANCE

    @property
    def agree(self) -> int:
        """How many places agree before the first that departs.

        An output that departs although the next input agrees was measured at another point of one computation: embeddings
        before their factor, say. A norm hides the factor of its input, so an input that departs always counts.
        """
        places = self.probes
        for at, place in enumerate(places):
            following = places[at + 1] if at + 1 < len(places) else None
            elsewhere = place.side == "output" and following is not None and following.side == "input" and following.agrees
            if not place.agrees and not elsewhere:
                return at
        return len(places)

    @property
    def first(self) -> Probe | None:
        """The first place that departs."""
        return self.probes[self.agree] if self.agree < len(self.probes) else None

    @property
    def rank(self) -> tuple[bool, int, float, float]:
        """Equal logits first; then how many places agree before the first that departs, and how far that one is."""
        first = self.first
        return self.equal, self.agree, -(first.difference if first else 0.0), -self.logits


class Comparison:
    """A reference, run once on one input, with which derived families are compared."""

    def __init__(self, of: TinyReference, table: Mapping[str, Any], modules: Mapping[str, FileModule]) -> None:
        self.of, self.table, self.modules = of, table, modules
        self._runs: dict[tuple[int, ...], tuple[Tensor, ProbedRun]] = {}

    def proof(self, fit: Fit) -> PortProof:
        """The proof of one fit; a model that cannot be built, filled or run is a failure in words."""
        if not fit.whole or fit.architecture is None:
            return PortProof(fit, failed=fit.refusal or "some weights have no place")
        try:
            ours = self._built(fit, fit.architecture)
            given, target = self._input(fit.architecture)
            theirs, seen = self._reference(given, target)
            logits, mine = watched(ours, lambda: ours(given) if target is None else ours(given, target))
        except (UserError, ValueError, RuntimeError, LookupError, TypeError, AssertionError) as error:
            return PortProof(fit, failed=f"{type(error).__name__}: {error}")
        pairs = pairs_of(fit, ours, seen)
        found = PortProof(fit, gap(logits, theirs), compared(pairs, mine, seen))
        first = found.first
        entering = None if first is None else seen.inputs.get(pairs[first.where])
        measured = () if found.equal else tuple(factors(fit.architecture, mine, entering, first, (logits, theirs)))
        return replace(found, measured=measured)

    def _built(self, fit: Fit, architecture: Architecture) -> Transformer:
        family = fit.derivation.family(str(self.table["model_type"]), "")
        stored = Stored(self.of.directory, family.base, family.older_names)
        with on_meta():
            model = Transformer(architecture, None)
        fill(model, family, stored, dtype=torch.float32)
        return model.eval()

    def _input(self, architecture: Architecture) -> tuple[Tensor, Tensor | None]:
        given = without_marks(example_of(architecture, _BATCH, _LENGTH, 0), self.table, architecture.embedding.symbols)
        if not architecture.two_inputs:
            return given, None
        target = target_of(architecture, _BATCH, _LENGTH, 1)
        return given, without_marks(target, self.table, architecture.output_embedding.symbols)

    def _reference(self, given: Tensor, target: Tensor | None) -> tuple[Tensor, ProbedRun]:
        """The reference's logits of an input; one that other architectures gave is remembered."""
        key = tuple(given.flatten().tolist()) + (() if target is None else tuple(target.flatten().tolist()))
        if key not in self._runs:
            self._runs[key] = watched(self.of.model, lambda: logits_of(self.of.model, given, target))
        return self._runs[key]


def logits_of(model: nn.Module, given: Tensor, target: Tensor | None) -> Tensor:
    """The logits of a class that is not ours: alone, or in what it returns."""
    try:
        from transformers import PreTrainedModel

        if isinstance(model, PreTrainedModel):
            return output_of(model, given, target)
    except ImportError:
        pass
    out = model(given) if target is None else model(given, target)
    if isinstance(out, Tensor):
        return out
    logits: Tensor = out["logits"] if isinstance(out, Mapping) else out[0] if isinstance(out, tuple) else out.logits
    return logits


def proved(fits: Sequence[Fit], against: Comparison, *, rounds: int = 12) -> PortProof:
    """The best proof of several fits; what was guessed is changed, one thing at a time, as long as more places agree.

    Of the fits, those of which most places agree are followed, until one is equal.
    """
    proofs = sorted((against.proof(fit) for fit in fits), key=lambda proof: proof.rank, reverse=True)
    ends: list[PortProof] = []
    for proof in proofs[:_FOLLOWED]:
        ends.append(_followed(proof, against, rounds))
        if ends[-1].equal:
            break
    best = max(ends, key=lambda proof: proof.rank)
    for _ in range(_STUCK):
        if best.equal or best.failed or (freed := _pair(best, against)) is None:
            break
        best = _followed(freed, against, rounds)
    return best


def _followed(best: PortProof, against: Comparison, rounds: int) -> PortProof:
    """The end of a way of single changes, every one of which is better than the one before."""
    for _ in range(rounds):
        if best.equal or best.failed:
            break
        better = next(_improved(best, against, _steps(best, against)), None)
        if better is None:
            break
        best = better
    return best


def _improved(best: PortProof, against: Comparison, steps: Iterable[Hint]) -> Iterator[PortProof]:
    """Proofs with one guess changed, of which more places agree; or else the one whose first departure is much smaller.

    Where two guesses are wrong in one place, no single change makes it agree.
    """
    nearer: list[PortProof] = []
    for step in steps:
        fit = explained(step.applied(best.fit.derivation), against.table, against.modules)
        proof = replace(against.proof(fit), taken=(*best.taken, step.why))
        if proof.rank[:2] > best.rank[:2]:
            yield proof
        elif (
            proof.rank[:2] == best.rank[:2]
            and proof.first
            and best.first
            and proof.first.difference < _NEARER * best.first.difference
        ):
            nearer.append(proof)
    yield from sorted(nearer, key=lambda proof: proof.rank, reverse=True)


def _pair(best: PortProof, against: Comparison) -> PortProof | None:
    """The first proof with two guesses changed of which more places agree, where no single one helps."""
    steps = list(_steps(best, against))
    # Pairs of the likeliest first: steps come in the order in which known families differ most often.
    pairs = sorted(combinations(range(len(steps)), 2), key=sum)[:_PAIRS]
    for one, other in ((steps[at], steps[then]) for at, then in pairs):
        fit = explained(other.applied(one.applied(best.fit.derivation)), against.table, against.modules)
        proof = replace(against.proof(fit), taken=(*best.taken, one.why, other.why))
        if proof.rank[:2] > best.rank[:2]:
            return proof
    return None


def _steps(best: PortProof, against: Comparison) -> Iterator[Hint]:
    """What may be changed at the first place that departs: factors that were measured there, then what is guessed."""
    first = best.first
    yield from best.measured
    yield from alternatives(best.fit, against.table, *((first.where, first.side) if first else ()))
