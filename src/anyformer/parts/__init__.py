"""The parts of a transformer: one part, one file, each with its description, its module, its cost and its decode state."""

from anyformer.parts.attention import Attention
from anyformer.parts.batch_norm import BatchNorm
from anyformer.parts.block import Block, Step
from anyformer.parts.branch import Branch
from anyformer.parts.capacity import Capacity, RowCapacity
from anyformer.parts.cross_attention import CrossAttention
from anyformer.parts.decay import ChannelDecay, ScalarDecay
from anyformer.parts.delta_attention import DeltaAttention
from anyformer.parts.differential_attention import DifferentialAttention
from anyformer.parts.dual_cross_attention import ChannelCrossAttention, SpatialCrossAttention
from anyformer.parts.embedding import Embedding, MaskedTokens
from anyformer.parts.experts import Experts, SharedExpert
from anyformer.parts.feature_map import (
    EluPlusOne,
    Exponential,
    ExponentialNormalised,
    Identity,
    PositiveRandom,
    RandomFourier,
    Rectified,
    UnitLength,
)
from anyformer.parts.features import AudioFrames, Features, GatedFrames
from anyformer.parts.feedforward import FeedForward, gated_width
from anyformer.parts.gain import Gain
from anyformer.parts.gate import Gate
from anyformer.parts.gated_convolution import GatedConvolution
from anyformer.parts.head import Head, Transform
from anyformer.parts.initialisation import FanIn, Initialisation, Normal, TruncatedNormal, Xavier
from anyformer.parts.input_projection import InputProjection
from anyformer.parts.latent_attention import LatentAttention
from anyformer.parts.latents import InducedAttention, Latents
from anyformer.parts.layer_embedding import LayerEmbedding
from anyformer.parts.lightning_attention import LightningAttention
from anyformer.parts.linear_attention import LinearAttention
from anyformer.parts.mask import AllOf, AnyOf, Bidirectional, Causal, Prefix, Window
from anyformer.parts.norm import GroupNorm, LayerNorm, RMSNorm
from anyformer.parts.patches import Patches
from anyformer.parts.position import LearnedPosition, SinusoidalPosition
from anyformer.parts.relative import Disentangled, RelativeTable, TransformerXL
from anyformer.parts.rotary import Rotary
from anyformer.parts.rotary_scaling import DynamicScaling, LinearScaling, Llama3Scaling, LongRoPE, Proportional, YaRN
from anyformer.parts.router import Renormalise, Router
from anyformer.parts.score_bias import ALiBi, RelativeBuckets, SharedBias
from anyformer.parts.selection import Correction, Groups, Hashed, Sampled, SparseMixer, TopK
from anyformer.parts.short_convolution import ShortConvolution
from anyformer.parts.sparse_mask import BlockWindow, Chunk, Fixed, GlobalTokens, Strided, VerticalStride
from anyformer.parts.stack import Stack, stack
from anyformer.parts.streams import HyperConnections
from anyformer.parts.temperature import LengthTemperature, LogTemperature
from anyformer.parts.wiring import output_norm, parallel, post_norm, pre_norm, residual, sandwich

__all__ = [
    "ALiBi",
    "AllOf",
    "AnyOf",
    "Attention",
    "AudioFrames",
    "BatchNorm",
    "Bidirectional",
    "Block",
    "BlockWindow",
    "Branch",
    "Capacity",
    "Causal",
    "ChannelCrossAttention",
    "ChannelDecay",
    "Chunk",
    "Correction",
    "CrossAttention",
    "DeltaAttention",
    "DifferentialAttention",
    "Disentangled",
    "DynamicScaling",
    "EluPlusOne",
    "Embedding",
    "Experts",
    "Exponential",
    "ExponentialNormalised",
    "FanIn",
    "Features",
    "FeedForward",
    "Fixed",
    "Gain",
    "Gate",
    "GatedConvolution",
    "GatedFrames",
    "GlobalTokens",
    "GroupNorm",
    "Groups",
    "Hashed",
    "Head",
    "HyperConnections",
    "Identity",
    "InducedAttention",
    "Initialisation",
    "InputProjection",
    "LatentAttention",
    "Latents",
    "LayerEmbedding",
    "LayerNorm",
    "LearnedPosition",
    "LengthTemperature",
    "LightningAttention",
    "LinearAttention",
    "LinearScaling",
    "Llama3Scaling",
    "LogTemperature",
    "LongRoPE",
    "MaskedTokens",
    "Normal",
    "Patches",
    "PositiveRandom",
    "Prefix",
    "Proportional",
    "RMSNorm",
    "RandomFourier",
    "Rectified",
    "RelativeBuckets",
    "RelativeTable",
    "Renormalise",
    "Rotary",
    "Router",
    "RowCapacity",
    "Sampled",
    "ScalarDecay",
    "SharedBias",
    "SharedExpert",
    "ShortConvolution",
    "SinusoidalPosition",
    "SparseMixer",
    "SpatialCrossAttention",
    "Stack",
    "Step",
    "Strided",
    "TopK",
    "Transform",
    "TransformerXL",
    "TruncatedNormal",
    "UnitLength",
    "VerticalStride",
    "Window",
    "Xavier",
    "YaRN",
    "gated_width",
    "output_norm",
    "parallel",
    "post_norm",
    "pre_norm",
    "residual",
    "sandwich",
    "stack",
]
