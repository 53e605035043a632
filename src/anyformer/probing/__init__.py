"""What a trained model has learnt of a generated task: by length, position and distance, head by head, layer by layer."""

from anyformer.probing.ask import level_of, probe
from anyformer.probing.heads import HeadPattern, attending, attention_maps, head_scores
from anyformer.probing.lens import Lens, lens
from anyformer.probing.levels import Accuracy, DistanceBucket, Level, Probed, buckets
from anyformer.probing.pictures import draw_lens, draw_maps, draw_probed
from anyformer.probing.question import ProbeQuestion, fitting, objective_of, question

__all__ = [
    "Accuracy",
    "DistanceBucket",
    "HeadPattern",
    "Lens",
    "Level",
    "ProbeQuestion",
    "Probed",
    "attending",
    "attention_maps",
    "buckets",
    "draw_lens",
    "draw_maps",
    "draw_probed",
    "fitting",
    "head_scores",
    "lens",
    "level_of",
    "objective_of",
    "probe",
    "question",
]
