"""M2M-100 and NLLB: BART's layers with norms before sublayers, and fairseq's sinusoids."""

from __future__ import annotations

from typing import Any

from anyformer.describe import get
from anyformer.huggingface.config import Config
from anyformer.huggingface.families.bart import Line
from anyformer.huggingface.families.pegasus import TABLES
from anyformer.model import Architecture
from anyformer.parts import SinusoidalPosition, pre_norm
from anyformer.parts.positions.absolute import Position


def after_padding(config: Config) -> Position:
    """Fairseq's sinusoids: positions count on from the id of padding, and the table grows as needed."""
    offset = config("pad_token_id", 1) + 1
    return SinusoidalPosition(layout="halves", spacing="inclusive", offset=offset)


def padding(architecture: Architecture) -> dict[str, Any]:
    """The id of padding, from where positions begin."""
    return {"pad_token_id": get(architecture, "decoder.position.offset") - 1}


M2M = Line(
    after_padding, padding, wiring=pre_norm, final_norm=True, bias=False, scaled=True, activation="relu", attention_dropout=0.1
)

FAMILIES = (M2M.family("m2m_100", "M2M100ForConditionalGeneration", ignored=(TABLES,)),)
