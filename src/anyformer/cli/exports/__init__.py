"""What `anyformer export` writes, a file per format."""

from __future__ import annotations

import importlib

from anyformer.cli.export_options import Format
from anyformer.cli.exports.request import Exported, ExportRequest

__all__ = ["ExportRequest", "Exported", "written"]

FILES: dict[Format, str] = {
    "transformers": "directory",
    "vllm": "directory",
    "gguf": "gguf",
    "onnx": "onnx",
    "ctranslate2": "ctranslate2",
    "saelens": "saelens",
}


def written(asked: ExportRequest) -> Exported:
    """The model in the format that is asked for. What the format cannot say is refused before the model is loaded."""
    file = "adapter" if asked.alone.adapter else FILES[asked.format]
    made: Exported = importlib.import_module(f"{__name__}.{file}").write(asked)
    return made
