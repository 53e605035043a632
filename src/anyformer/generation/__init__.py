"""Running a model: prefill, decode, the choice of tokens, beams, text."""

from anyformer.generation.beams import Beams
from anyformer.generation.chances import Chances
from anyformer.generation.conversation import Conversation
from anyformer.generation.decode import continuations, decode, prefill
from anyformer.generation.decoding import Decoding
from anyformer.generation.drafting import Draft, Drafter, Lookup
from anyformer.generation.generation_config import AuthorsError, decoding_of
from anyformer.generation.rows import Continuation
from anyformer.generation.sampling import GREEDY, Sampling
from anyformer.generation.settings import GenerationSettings, authors_decoding
from anyformer.generation.sounds import SoundFrames
from anyformer.generation.speculative import Acceptance
from anyformer.generation.text import generate, generate_tokens, generated, stream
from anyformer.generation.weights import check_weights, generating

__all__ = [
    "GREEDY",
    "Acceptance",
    "AuthorsError",
    "Beams",
    "Chances",
    "Continuation",
    "Conversation",
    "Decoding",
    "Draft",
    "Drafter",
    "GenerationSettings",
    "Lookup",
    "Sampling",
    "SoundFrames",
    "authors_decoding",
    "check_weights",
    "continuations",
    "decode",
    "decoding_of",
    "generate",
    "generate_tokens",
    "generated",
    "generating",
    "prefill",
    "stream",
]
