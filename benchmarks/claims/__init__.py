"""Claims of the lecture notes that can be counted or measured: `python -m benchmarks.claims`."""

from __future__ import annotations

from benchmarks.claims import caches, exact, experts, flops, formats, initial, known_answers, routed, serving, sizes, studies
from benchmarks.claims.claim import NOTES, RESULT, Claim, Figures, Topic

__all__ = ["CLAIMS", "NOTES", "RESULT", "TOPICS", "Claim", "Figures", "Topic"]

ROOMS = (caches, flops, sizes, experts, serving, formats, initial, exact, routed, known_answers, studies)
TOPICS = tuple(room.TOPIC for room in ROOMS)
CLAIMS = {claim.name: claim for topic in TOPICS for claim in topic.claims}
