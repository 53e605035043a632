"""Running a model: prefill, decode, sampling, text."""

from anyformer.generation.decode import continuations, decode, prefill
from anyformer.generation.drafting import Draft, Drafter, Lookup
from anyformer.generation.sampling import Sampling
from anyformer.generation.speculative import Acceptance
from anyformer.generation.text import generate, generate_tokens, stream
from anyformer.generation.weights import check_weights, generating

__all__ = [
    "Acceptance",
    "Draft",
    "Drafter",
    "Lookup",
    "Sampling",
    "check_weights",
    "continuations",
    "decode",
    "generate",
    "generate_tokens",
    "generating",
    "prefill",
    "stream",
]
