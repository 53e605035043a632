"""The parts of a transformer: one part, one file, each with its description, its module, its cost and its decode state."""

from anyformer.parts.attention import Attention
from anyformer.parts.block import Block, Branch, Step
from anyformer.parts.cross_attention import CrossAttention
from anyformer.parts.embedding import Embedding
from anyformer.parts.feedforward import FeedForward
from anyformer.parts.head import Head
from anyformer.parts.initialisation import FanIn, Initialisation, Normal, TruncatedNormal, Xavier
from anyformer.parts.mask import AllOf, AnyOf, Bidirectional, Causal, Prefix, Window
from anyformer.parts.norm import LayerNorm, RMSNorm
from anyformer.parts.position import LearnedPosition, SinusoidalPosition
from anyformer.parts.rotary import Rotary
from anyformer.parts.sparse_mask import BlockWindow, Chunk, Fixed, GlobalTokens, Strided, VerticalStride
from anyformer.parts.stack import Stack, stack
from anyformer.parts.wiring import output_norm, parallel, post_norm, pre_norm, sandwich

__all__ = [
    "AllOf",
    "AnyOf",
    "Attention",
    "Bidirectional",
    "Block",
    "BlockWindow",
    "Branch",
    "Causal",
    "Chunk",
    "CrossAttention",
    "Embedding",
    "FanIn",
    "FeedForward",
    "Fixed",
    "GlobalTokens",
    "Head",
    "Initialisation",
    "LayerNorm",
    "LearnedPosition",
    "Normal",
    "Prefix",
    "RMSNorm",
    "Rotary",
    "SinusoidalPosition",
    "Stack",
    "Step",
    "Strided",
    "TruncatedNormal",
    "VerticalStride",
    "Window",
    "Xavier",
    "output_norm",
    "parallel",
    "post_norm",
    "pre_norm",
    "sandwich",
    "stack",
]
