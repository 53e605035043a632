"""The parts of a transformer: one part, one file, each with its description, its module, its cost and its decode state.

What is imported here is the room's: no list names it again (`pyproject.toml` says so to ruff and mypy).
"""

from anyformer.parts.attention.adjustments import Clip, ProjectionLoRA, ValueNorm, ValueScale
from anyformer.parts.attention.attention import Attention
from anyformer.parts.attention.block_indexer import BlockIndexer
from anyformer.parts.attention.clipped_relative_logits import ClippedRelativeLogits
from anyformer.parts.attention.collisions import Collisions
from anyformer.parts.attention.combining import OutputGate, SubNorm
from anyformer.parts.attention.compressed_attention import CompressedAttention
from anyformer.parts.attention.compressor import Compressor
from anyformer.parts.attention.cross_attention import CrossAttention
from anyformer.parts.attention.delta_values import DeltaValues
from anyformer.parts.attention.differential import Differential
from anyformer.parts.attention.dual_cross_attention import ChannelCrossAttention, SpatialCrossAttention
from anyformer.parts.attention.entry_indexer import EntryIndexer
from anyformer.parts.attention.exclusive import Exclusive
from anyformer.parts.attention.forgetting import ForgettingGate
from anyformer.parts.attention.fourier import FourierMixing
from anyformer.parts.attention.grouped_output import GroupedOutput
from anyformer.parts.attention.indexer import Indexer, SharedIndex
from anyformer.parts.attention.joined_stream import Joined
from anyformer.parts.attention.latent_attention import LatentAttention
from anyformer.parts.attention.latents import InducedAttention, Latents
from anyformer.parts.attention.length_clip import LengthClip
from anyformer.parts.attention.mean_keys import MeanKeys
from anyformer.parts.attention.memory import KeysFrom, VirtualTokens
from anyformer.parts.attention.mixed_norm import MixedNorm
from anyformer.parts.attention.multi_token_weights import MultiTokenWeights
from anyformer.parts.attention.parallax import Parallax
from anyformer.parts.attention.pooled_indexer import PooledIndexer
from anyformer.parts.attention.projection import Projection
from anyformer.parts.attention.qk_norm import QKNorm
from anyformer.parts.attention.relative import Disentangled, RelativeTable, TransformerXL
from anyformer.parts.attention.relative_logits import RelativeLogits
from anyformer.parts.attention.residual_convolution import ResidualConvolution, SideConvolution
from anyformer.parts.attention.scaled_heads import GainedGate, QueryGain
from anyformer.parts.attention.score import Score
from anyformer.parts.attention.score_bias import ALiBi, RelativeBuckets, SharedBias
from anyformer.parts.attention.side_inputs import SideInputs
from anyformer.parts.attention.slots import Adjustment, AttentionCall, Combine, Remembered, Term
from anyformer.parts.attention.span_convolution import SpanConvolution
from anyformer.parts.attention.talking_heads import TalkingHeads
from anyformer.parts.attention.temperature import LateTemperature, LengthTemperature, LogTemperature, PowerTemperature
from anyformer.parts.attention.token_sink import TokenSink
from anyformer.parts.attention.value_bias import ValueBias
from anyformer.parts.attention.value_convolution import ValueConvolution
from anyformer.parts.attention.value_embedding import ValueEmbedding
from anyformer.parts.attention.value_residual import ValueResidual
from anyformer.parts.attention.weigh import Map, SigmoidWeights, Softmax, Softpick, Weigh
from anyformer.parts.dictionary.codes import BatchTopKCode, GatedCode, JumpReLUCode, ReLUCode, TopKCode
from anyformer.parts.dictionary.dictionary import Dictionary, MeanLength, Revival
from anyformer.parts.embedding.activations import ActivationInput
from anyformer.parts.embedding.condition import Condition
from anyformer.parts.embedding.coordinates import Centred, Numbered
from anyformer.parts.embedding.embedding import Embedding, MaskedTokens
from anyformer.parts.embedding.features import AudioFrames, Features, GatedFrames
from anyformer.parts.embedding.hashed_ngrams import HashedNgrams
from anyformer.parts.embedding.head import Head, Transform
from anyformer.parts.embedding.input_projection import InputProjection
from anyformer.parts.embedding.layer_embedding import LayerEmbedding
from anyformer.parts.embedding.layer_inputs import LayerInput, LayerInputs
from anyformer.parts.embedding.marked import MarkedEmbedding, Marks, MarkSpan
from anyformer.parts.embedding.narrow_table import NarrowTable
from anyformer.parts.embedding.ngrams import Ngrams
from anyformer.parts.embedding.patches import Patches
from anyformer.parts.embedding.tree_places import TreePlacedEmbedding
from anyformer.parts.embedding.waves import RowNorm, WaveLayer, Waves
from anyformer.parts.experts.attention_experts import AttentionExperts
from anyformer.parts.experts.capacity import Capacity, RowCapacity
from anyformer.parts.experts.experts import Experts
from anyformer.parts.experts.latent_experts import LatentExperts
from anyformer.parts.experts.router import Renormalise, Router
from anyformer.parts.experts.selection import Groups, Hashed, Sampled, ScoreCorrectionBias, SparseMixer, TokenTable, TopK
from anyformer.parts.experts.shared import SharedExpert
from anyformer.parts.feedforward.feedforward import FeedForward, SoftCaps, gated_width
from anyformer.parts.images.averaged import AveragedProjector
from anyformer.parts.images.chained import ChainedProjector
from anyformer.parts.images.condensed import CondensedProjector
from anyformer.parts.images.deep_stack import DeepStack
from anyformer.parts.images.downsampled import DownsampledProjector
from anyformer.parts.images.encoded import EncodedImages
from anyformer.parts.images.encoded_waves import EncodedWaves
from anyformer.parts.images.encoder import ImageEncoder
from anyformer.parts.images.gated_projector import GatedProjector
from anyformer.parts.images.grid import GridTower
from anyformer.parts.images.linear import LinearProjector
from anyformer.parts.images.merged import MergedProjector
from anyformer.parts.images.pooled import PooledProjector
from anyformer.parts.images.resampled import ResampledPosition
from anyformer.parts.images.side_by_side import SideBySideProjector
from anyformer.parts.images.sound import SoundEncoder, SoundTower
from anyformer.parts.images.squares import SquaresProjector
from anyformer.parts.images.tiles import TiledTower, Tiles
from anyformer.parts.images.tower import ImageTower
from anyformer.parts.images.two_layer import TwoLayerProjector
from anyformer.parts.initialisation import FanIn, Initialisation, Normal, TruncatedNormal, Xavier
from anyformer.parts.layers.alternating import AlternatingUpdates
from anyformer.parts.layers.attention_residuals import AttentionResiduals
from anyformer.parts.layers.block import Block
from anyformer.parts.layers.bottleneck import Bottleneck
from anyformer.parts.layers.branch import Branch
from anyformer.parts.layers.constant import Constant
from anyformer.parts.layers.cycles import Cycles
from anyformer.parts.layers.gated_residual import GatedResidual
from anyformer.parts.layers.independent import IndependentConnections
from anyformer.parts.layers.looped import Looped
from anyformer.parts.layers.looped_residuals import LoopedResiduals
from anyformer.parts.layers.low_rank import LowRankResidual
from anyformer.parts.layers.low_rank_connections import LowRankConnections
from anyformer.parts.layers.manifold import ManifoldConnections
from anyformer.parts.layers.modulation import Modulation
from anyformer.parts.layers.multi_token import SequentialPrediction
from anyformer.parts.layers.parallel_heads import ParallelPrediction
from anyformer.parts.layers.scaled_residual import ScaledResidual
from anyformer.parts.layers.skip import Skip
from anyformer.parts.layers.stack import Stack
from anyformer.parts.layers.step import Step
from anyformer.parts.layers.streams import HyperConnections
from anyformer.parts.layers.wiring import output_norm, parallel, post_norm, pre_norm, residual, sandwich, stack
from anyformer.parts.masks.mask import AllOf, AnyOf
from anyformer.parts.masks.simple import Bidirectional, Causal, Prefix, Window
from anyformer.parts.masks.sparse import BlockWindow, Chunk, Fixed, GlobalTokens, Strided, VerticalStride
from anyformer.parts.norms.adapted_norm import AdaptedNorm
from anyformer.parts.norms.affine import Affine
from anyformer.parts.norms.batch_norm import BatchNorm
from anyformer.parts.norms.delay_norm import DelayNorm
from anyformer.parts.norms.dynamic_tanh import DynamicTanh
from anyformer.parts.norms.gained_first import GainedFirst
from anyformer.parts.norms.gated_norm import GatedNorm
from anyformer.parts.norms.layer_norm import GroupedLayerNorm, GroupedRMSNorm, LayerNorm, RMSNorm
from anyformer.parts.norms.unit_norm import UnitNorm
from anyformer.parts.parametrisation import MaximalUpdate, Parametrisation, UnitScaledUpdate
from anyformer.parts.pointwise.gain import Gain
from anyformer.parts.pointwise.gate import Gate
from anyformer.parts.pointwise.grouped import HeadGroups, NetworkGroups
from anyformer.parts.pointwise.layer_lora import LayerLoRA
from anyformer.parts.pointwise.message_gate import MessageGate
from anyformer.parts.pointwise.scaled_gain import ScaledGain
from anyformer.parts.pointwise.sparse import StatisticalTopK
from anyformer.parts.positions.absolute import GappedPosition, LearnedPosition, SinusoidalGrid, SinusoidalPosition
from anyformer.parts.positions.convolutional import ConvolutionalPosition
from anyformer.parts.positions.place import Place
from anyformer.parts.positions.rotary import Rotary
from anyformer.parts.positions.rotary_axes import Axial, Interleaved, Sections
from anyformer.parts.positions.rotary_scaling import DynamicScaling, LinearScaling, Llama3Scaling, LongRoPE, Proportional, YaRN
from anyformer.parts.recurrence.comba import Comba
from anyformer.parts.recurrence.decay import ChannelDecay, ScalarDecay
from anyformer.parts.recurrence.delta_attention import DeltaAttention
from anyformer.parts.recurrence.engram import Engram
from anyformer.parts.recurrence.feature_map import (
    EluPlusOne,
    Exponential,
    ExponentialNormalised,
    Identity,
    PositiveRandom,
    RandomFourier,
    Rectified,
    UnitLength,
)
from anyformer.parts.recurrence.gated_convolution import GatedConvolution
from anyformer.parts.recurrence.gated_delta2 import GatedDelta2
from anyformer.parts.recurrence.gated_linear_attention import GatedLinearAttention
from anyformer.parts.recurrence.gated_slot_attention import GatedSlotAttention
from anyformer.parts.recurrence.lightning_attention import LightningAttention
from anyformer.parts.recurrence.linear_attention import LinearAttention
from anyformer.parts.recurrence.local_convolution import LocalConvolution
from anyformer.parts.recurrence.log_linear_attention import LogLinearAttention
from anyformer.parts.recurrence.mamba import Mamba
from anyformer.parts.recurrence.mamba2 import Mamba2, Multipliers
from anyformer.parts.recurrence.mamba3 import Mamba3
from anyformer.parts.recurrence.mesa_layer import MesaLayer
from anyformer.parts.recurrence.mlstm import MLSTM
from anyformer.parts.recurrence.path_attention import PathAttention
from anyformer.parts.recurrence.rg_lru import RGLRU
from anyformer.parts.recurrence.rwkv import RWKV, RWKVChannelMix
from anyformer.parts.recurrence.rwkv7 import RWKV7, ValueGate
from anyformer.parts.recurrence.rwkv7_channel_mix import RWKV7ChannelMix
from anyformer.parts.recurrence.short_convolution import ShortConvolution
from anyformer.parts.recurrence.slstm import SLSTM
from anyformer.parts.recurrence.ttt_linear import TTTLinear
