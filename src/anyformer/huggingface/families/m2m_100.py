"""M2M-100 and NLLB: BART's layers with norms before sublayers, and fairseq's sinusoids."""

from __future__ import annotations

from anyformer.huggingface.words.seq2seq import SINUSOIDS, Line, after_padding
from anyformer.parts import pre_norm

M2M = Line(after_padding, wiring=pre_norm, final_norm=True, bias=False, scaled=True, activation="relu", attention_dropout=0.1)
FAMILIES = (M2M.family("m2m_100", "M2M100ForConditionalGeneration", fixed=SINUSOIDS),)
