"""A model opened: lenses, attributions, patching, ablations, steering, attention patterns and circuits, by path.

`anyformer.inspect` is this room. Every analysis takes a model and tokens, or a `CallInputs` of what else its call needs, and
gives a frozen value with a `table()`; values inside a model are seen by `model.watch` and replaced by `model.patch`.
"""

from anyformer.inspecting.ablation import ablation
from anyformer.inspecting.activation_patching import PatchingGrid, activation_patching, attribution_patching
from anyformer.inspecting.asked_text import AskedText, check_reads_tokens
from anyformer.inspecting.attribution import Attribution, attribution
from anyformer.inspecting.call_inputs import CallInputs
from anyformer.inspecting.circuit import Circuit, find_circuit
from anyformer.inspecting.edge_scores import EdgeScores, score_edges
from anyformer.inspecting.features import FeatureDictionary, FeatureReading, feature_table
from anyformer.inspecting.graph import Edge
from anyformer.inspecting.logit_lens import LensReading, logit_lens, read_out
from anyformer.inspecting.metrics import LogitDifference, LogProbability, Metric, TokenLogit
from anyformer.inspecting.patterns import (
    HeadPattern,
    attention_paths,
    attention_patterns,
    head_patterns,
    pattern_scores,
    pattern_table,
    repeated_tokens,
)
from anyformer.inspecting.pictures import (
    draw_attribution,
    draw_circuit,
    draw_patching,
    draw_patterns,
    draw_reading,
)
from anyformer.inspecting.places import StreamWriter, streams, writers
from anyformer.inspecting.steering import SteeringVector, steering_vector
from anyformer.inspecting.tuned_lens import TunedLens, tuned_lens

__all__ = [
    "AskedText",
    "Attribution",
    "CallInputs",
    "Circuit",
    "Edge",
    "EdgeScores",
    "FeatureDictionary",
    "FeatureReading",
    "HeadPattern",
    "LensReading",
    "LogProbability",
    "LogitDifference",
    "Metric",
    "PatchingGrid",
    "SteeringVector",
    "StreamWriter",
    "TokenLogit",
    "TunedLens",
    "ablation",
    "activation_patching",
    "attention_paths",
    "attention_patterns",
    "attribution",
    "attribution_patching",
    "check_reads_tokens",
    "draw_attribution",
    "draw_circuit",
    "draw_patching",
    "draw_patterns",
    "draw_reading",
    "feature_table",
    "find_circuit",
    "head_patterns",
    "logit_lens",
    "pattern_scores",
    "pattern_table",
    "read_out",
    "repeated_tokens",
    "score_edges",
    "steering_vector",
    "streams",
    "tuned_lens",
    "writers",
]
