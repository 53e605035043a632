"""GGUF files of llama.cpp, read as directories of Hugging Face's layout are, and written from models."""

from anyformer.huggingface.gguf.architectures import architectures, forms
from anyformer.huggingface.gguf.exporting import GgufExport, export_gguf
from anyformer.huggingface.gguf.file import GgufFile
from anyformer.huggingface.gguf.reader import is_gguf
from anyformer.huggingface.gguf.tokenizer import beside_of

__all__ = ["GgufExport", "GgufFile", "architectures", "beside_of", "export_gguf", "forms", "is_gguf"]
