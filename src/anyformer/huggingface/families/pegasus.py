"""Pegasus: BART's layers with norms before sublayers, and sinusoids in two halves for positions."""

from __future__ import annotations

from anyformer.huggingface.config import Config
from anyformer.huggingface.families.bart import Line, longest
from anyformer.parts import SinusoidalPosition, pre_norm
from anyformer.parts.positions.absolute import Position

TABLES = r"model\.(encoder|decoder)\.embed_positions\.weights?"
"""Sinusoids that files may hold, and that are computed here."""


def halves(config: Config) -> Position:
    """All sines, then all cosines, from position 0; a table of a fixed length."""
    return SinusoidalPosition(layout="halves", length=config("max_position_embeddings", 1024))


PEGASUS = Line(halves, longest, wiring=pre_norm, final_norm=True)

FAMILIES = (PEGASUS.family("pegasus", "PegasusForConditionalGeneration", ignored=(TABLES,)),)
