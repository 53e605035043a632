"""Whether an engine is right: golden vectors of a model, held against an engine's log-probabilities over HTTP."""

from anyformer.conforming.cases import CASES, ConformCase, NotAskedError, chosen
from anyformer.conforming.conform import CHUNK, LONGEST, conform, golden_vectors, held_layers
from anyformer.conforming.facts import ModelFacts
from anyformer.conforming.golden import GoldenVectors, golden_cases
from anyformer.conforming.golden_file import GoldenFileError, read_golden, write_golden
from anyformer.conforming.layers import LayerGap, LayersFileError
from anyformer.conforming.pieces import pieces_of
from anyformer.conforming.reference import TOP, Reference
from anyformer.conforming.request import Completion, CompletionRequest, TokenLogProbs
from anyformer.conforming.servers import CompletionServer, EngineError, open_server
from anyformer.conforming.verdict import CaseVerdict, ConformReport

__all__ = [
    "CASES",
    "CHUNK",
    "LONGEST",
    "TOP",
    "CaseVerdict",
    "Completion",
    "CompletionRequest",
    "CompletionServer",
    "ConformCase",
    "ConformReport",
    "EngineError",
    "GoldenFileError",
    "GoldenVectors",
    "LayerGap",
    "LayersFileError",
    "ModelFacts",
    "NotAskedError",
    "Reference",
    "TokenLogProbs",
    "chosen",
    "conform",
    "golden_cases",
    "golden_vectors",
    "held_layers",
    "open_server",
    "pieces_of",
    "read_golden",
    "write_golden",
]
