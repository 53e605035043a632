"""The configuration of our own layout, as transformers reads it."""

from __future__ import annotations

from typing import Any

from transformers.configuration_utils import PretrainedConfig

from anyformer.huggingface.registry import OWN, own
from anyformer.model import Architecture


class AnyformerConfig(PretrainedConfig):  # type: ignore[misc]
    """The architecture as data; the other keys that transformers reads follow from it where they are left out."""

    model_type = OWN
    keys_to_ignore_at_inference = ["past_key_values"]  # noqa: RUF012 (transformers adds a list to it)

    def __init__(self, architecture: dict[str, Any] | None = None, **more: Any) -> None:
        derived = (
            {} if architecture is None else own().write(Architecture.parse(architecture, where="config.json: architecture"))
        )
        self.architecture = architecture
        super().__init__(**{"tie_word_embeddings": False, **derived, **more, "architecture": architecture})
