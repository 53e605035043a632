"""Models in the formats of engines that read none of ours or Hugging Face's: ONNX, CTranslate2."""

from anyformer.exporting.ctranslate2 import export_ctranslate2
from anyformer.exporting.graphs import ExportError, graphs_of
from anyformer.exporting.onnx_directory import OnnxExport, export_onnx

__all__ = ["ExportError", "OnnxExport", "export_ctranslate2", "export_onnx", "graphs_of"]
