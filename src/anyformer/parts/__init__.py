"""The parts of a transformer: one part, one file, each with its description, its module, its cost and its decode state."""

from anyformer.parts.attention import Attention
from anyformer.parts.block import Block, Branch, Step
from anyformer.parts.capacity import Capacity
from anyformer.parts.cross_attention import CrossAttention
from anyformer.parts.differential_attention import DifferentialAttention
from anyformer.parts.embedding import Embedding
from anyformer.parts.experts import Experts, SharedExpert
from anyformer.parts.feedforward import FeedForward
from anyformer.parts.gate import Gate
from anyformer.parts.head import Head
from anyformer.parts.initialisation import FanIn, Initialisation, Normal, TruncatedNormal, Xavier
from anyformer.parts.latent_attention import LatentAttention
from anyformer.parts.mask import AllOf, AnyOf, Bidirectional, Causal, Prefix, Window
from anyformer.parts.norm import LayerNorm, RMSNorm
from anyformer.parts.position import LearnedPosition, SinusoidalPosition
from anyformer.parts.relative import Disentangled, RelativeTable, TransformerXL
from anyformer.parts.rotary import Rotary
from anyformer.parts.rotary_scaling import DynamicScaling, LinearScaling, Llama3Scaling, LongRoPE, Proportional, YaRN
from anyformer.parts.router import Renormalise, Router
from anyformer.parts.score_bias import ALiBi, RelativeBuckets, SharedBias
from anyformer.parts.selection import Correction, Groups, Hashed, Sampled, TopK
from anyformer.parts.sparse_mask import BlockWindow, Chunk, Fixed, GlobalTokens, Strided, VerticalStride
from anyformer.parts.stack import Stack, stack
from anyformer.parts.temperature import LengthTemperature, LogTemperature
from anyformer.parts.wiring import output_norm, parallel, post_norm, pre_norm, sandwich

__all__ = [
    "ALiBi",
    "AllOf",
    "AnyOf",
    "Attention",
    "Bidirectional",
    "Block",
    "BlockWindow",
    "Branch",
    "Capacity",
    "Causal",
    "Chunk",
    "Correction",
    "CrossAttention",
    "DifferentialAttention",
    "Disentangled",
    "DynamicScaling",
    "Embedding",
    "Experts",
    "FanIn",
    "FeedForward",
    "Fixed",
    "Gate",
    "GlobalTokens",
    "Groups",
    "Hashed",
    "Head",
    "Initialisation",
    "LatentAttention",
    "LayerNorm",
    "LearnedPosition",
    "LengthTemperature",
    "LinearScaling",
    "Llama3Scaling",
    "LogTemperature",
    "LongRoPE",
    "Normal",
    "Prefix",
    "Proportional",
    "RMSNorm",
    "RelativeBuckets",
    "RelativeTable",
    "Renormalise",
    "Rotary",
    "Router",
    "Sampled",
    "SharedBias",
    "SharedExpert",
    "SinusoidalPosition",
    "Stack",
    "Step",
    "Strided",
    "TopK",
    "TransformerXL",
    "TruncatedNormal",
    "VerticalStride",
    "Window",
    "Xavier",
    "YaRN",
    "output_norm",
    "parallel",
    "post_norm",
    "pre_norm",
    "sandwich",
    "stack",
]
