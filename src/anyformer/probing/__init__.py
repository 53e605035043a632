"""What a trained model has learnt of a generated task: by length, position and distance, layer by layer."""

from anyformer.probing.ask import level_of, probe
from anyformer.probing.lens import Lens, lens
from anyformer.probing.levels import Accuracy, DistanceBucket, Level, Probed, buckets
from anyformer.probing.pictures import draw_lens, draw_probed
from anyformer.probing.question import ProbeQuestion, fitting, objective_of, question

__all__ = [
    "Accuracy",
    "DistanceBucket",
    "Lens",
    "Level",
    "ProbeQuestion",
    "Probed",
    "buckets",
    "draw_lens",
    "draw_probed",
    "fitting",
    "lens",
    "level_of",
    "objective_of",
    "probe",
    "question",
]
