"""The configuration of our own layout, as transformers reads it."""

from __future__ import annotations

from typing import Any

from transformers.configuration_utils import PretrainedConfig

from anyformer.huggingface.own import MODEL_TYPE


class AnyformerConfig(PretrainedConfig):  # type: ignore[misc]
    """The architecture as data, beside the keys that transformers asks for."""

    model_type = MODEL_TYPE
    keys_to_ignore_at_inference = ("past_key_values",)

    def __init__(self, architecture: dict[str, Any] | None = None, **more: Any) -> None:
        self.architecture = architecture
        super().__init__(**{"tie_word_embeddings": False, **more})
