"""Running a model: prefill, decode, sampling, text."""

from anyformer.generation.decode import continuations, decode, prefill
from anyformer.generation.sampling import Sampling
from anyformer.generation.text import generate, generate_tokens, stream

__all__ = ["Sampling", "continuations", "decode", "generate", "generate_tokens", "prefill", "stream"]
