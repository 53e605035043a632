"""The configuration of our own layout, as transformers reads it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from transformers.configuration_utils import PretrainedConfig

from anyformer.huggingface.families.anyformer import auto_map_of
from anyformer.huggingface.registry import OWN, own
from anyformer.huggingface.remote_files import remote_files
from anyformer.model import Architecture


class InPackage:
    """The base of classes that stay in the package: what saves them writes no copy of their code."""

    @classmethod
    def register_for_auto_class(cls, auto_class: str = "") -> None:
        """Nothing: `auto_map` of the configuration names the files beside it already."""


class AnyformerConfig(InPackage, PretrainedConfig):  # type: ignore[misc]
    """The architecture as data; the other keys that transformers reads follow from it where they are left out."""

    model_type = OWN
    keys_to_ignore_at_inference = ["past_key_values"]  # noqa: RUF012 (transformers adds a list to it)

    def __init__(self, architecture: dict[str, Any] | None = None, **more: Any) -> None:
        derived = (
            {} if architecture is None else own().write(Architecture.parse(architecture, where="config.json: architecture"))
        )
        self.architecture = architecture
        super().__init__(**{"tie_word_embeddings": False, **derived, **more, "architecture": architecture})

    def to_json_file(self, json_file_path: str | os.PathLike[str], use_diff: bool = True) -> None:
        """Write the configuration, and beside it the files that its `auto_map` names."""
        if self.architecture is not None:
            # Of a model from a hub it would name the files there.
            self.auto_map = auto_map_of(Architecture.parse(self.architecture))
        for name, content in remote_files().items():
            Path(json_file_path).with_name(name).write_bytes(content)
        super().to_json_file(json_file_path, use_diff)
