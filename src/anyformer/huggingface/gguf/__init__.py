"""GGUF files of llama.cpp, read as directories of Hugging Face's layout are."""

from anyformer.huggingface.gguf.architectures import SPELLINGS
from anyformer.huggingface.gguf.file import GgufFile
from anyformer.huggingface.gguf.reader import is_gguf
from anyformer.huggingface.gguf.tokenizer import beside_of

__all__ = ["SPELLINGS", "GgufFile", "beside_of", "is_gguf"]
