"""Pegasus: BART's layers with norms before sublayers, and sinusoids in two halves for positions."""

from __future__ import annotations

from anyformer.huggingface.words.seq2seq import SINUSOIDS, Line, halves
from anyformer.parts import pre_norm

PEGASUS = Line(halves, wiring=pre_norm, final_norm=True)
FAMILIES = (PEGASUS.family("pegasus", "PegasusForConditionalGeneration", fixed=SINUSOIDS),)
