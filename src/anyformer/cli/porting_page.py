"""A proposal of `anyformer port` as text and as data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from anyformer.costs.difference import details
from anyformer.porting import PortProposal
from anyformer.porting.files import proved_words

MOST = 14
"""Lines of what differs from the nearest family."""


def data(proposal: PortProposal, written: list[Path]) -> dict[str, Any]:
    """The proposal as JSON."""
    proof = proposal.proof
    return {
        "model_type": proposal.model_type,
        "base": proposal.derivation.base,
        "nearest": [
            {"model_type": each.model_type, "score": round(each.score, 3), "why": each.reasons} for each in proposal.nearest
        ],
        "certain": list(proposal.certain),
        "guessed": list(proposal.guessed),
        "unknown": [
            {"key": each.key, "value": each.value, "uses": list(each.uses), "instead": each.instead}
            for each in proposal.unknown
        ],
        "unread_code": dict(proposal.code.unread),
        "without_a_place": [each.name for each in proposal.fit.left],
        "wanting": [line.module.name for line in proposal.fit.missing],
        "differs": [f"{each.what}: {each.left} -> {each.right}" for each in changes(proposal)],
        "proved": proof is not None and proof.equal,
        "proof": proved_words(proposal),
        "layers": [{"where": probe.where, "side": probe.side, "difference": probe.difference} for probe in proof.probes]
        if proof
        else [],
        "written": [str(path) for path in written],
    }


def changes(proposal: PortProposal) -> tuple[Any, ...]:
    """What differs from the base as it is, in the words of `anyformer diff`."""
    base = next((each for each in proposal.nearest if each.model_type == proposal.derivation.base), proposal.nearest[0])
    assert base.fit.architecture is not None, "a neighbour that was read"
    return details(base.fit.architecture, proposal.architecture)


def lines(proposal: PortProposal, written: list[Path]) -> Iterator[str]:
    """The proposal, line by line."""
    yield f"{proposal.model_type}: proposed as {proposal.derivation.base}, with what differs"
    yield "Nearest families:"
    for each in proposal.nearest[:3]:
        yield f"  {each.model_type}: {each.reasons}"
    yield from _listed("Certain:", proposal.certain)
    yield from _listed("Guessed:", proposal.guessed)
    yield from _listed("Unknown, held to their values:", [_unknown(each) for each in proposal.unknown])
    yield from _listed("Code that could not be read:", [f"{file}: {why}" for file, why in proposal.code.unread.items()])
    found = changes(proposal)
    yield from _listed(
        f"What differs from {proposal.derivation.base}:", [f"{each.what}: {each.left} -> {each.right}" for each in found[:MOST]]
    )
    if len(found) > MOST:
        yield f"  and {len(found) - MOST} more"
    yield from _listed("Weights without a place:", [f"{each.name} {each.shape}" for each in proposal.fit.left])
    yield from _listed("Weights that it would need:", [line.module.name for line in proposal.fit.missing])
    yield from _proof(proposal)
    yield from _listed("Wrote:", [str(path) for path in written])


def _unknown(each: Any) -> str:
    said = [*([each.instead] if each.instead else []), *each.uses[:3]]
    return f"{each.key} = {each.value!r}{': ' if said else ''}{'; '.join(said)}"


def _listed(title: str, said: list[str] | tuple[str, ...]) -> Iterator[str]:
    if said:
        yield title
        yield from (f"  {each}" for each in said)


def _proof(proposal: PortProposal) -> Iterator[str]:
    proof = proposal.proof
    if proof is not None and proof.probes:
        by_layer: dict[str, float] = {}
        for probe in proof.probes:
            by_layer[probe.layer] = max(by_layer.get(probe.layer, 0.0), probe.difference)
        yield f"Against {proposal.against}, the largest difference:"
        yield from (f"  {layer}: {difference:.1e}" for layer, difference in by_layer.items())
        yield f"  logits: {proof.logits:.1e}"
    yield proved_words(proposal)
