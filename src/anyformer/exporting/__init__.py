"""Models in formats of others than ours and Hugging Face's: ONNX, CTranslate2, SAELens."""

from anyformer.exporting.ctranslate2 import export_ctranslate2
from anyformer.exporting.graphs import ExportError, graphs_of
from anyformer.exporting.onnx_directory import OnnxExport, export_onnx
from anyformer.exporting.saelens import SAELensError, export_saelens, is_saelens, load_saelens, saelens_architecture

__all__ = [
    "ExportError",
    "OnnxExport",
    "SAELensError",
    "export_ctranslate2",
    "export_onnx",
    "export_saelens",
    "graphs_of",
    "is_saelens",
    "load_saelens",
    "saelens_architecture",
]
