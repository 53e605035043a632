"""Every kind of input."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from anyformer.parts.embedding import Embedding
from anyformer.parts.features import AudioFrames, Features, GatedFrames
from anyformer.parts.patches import Patches

Input = Annotated[Embedding | Patches | Features | AudioFrames | GatedFrames, Field(discriminator="kind")]
