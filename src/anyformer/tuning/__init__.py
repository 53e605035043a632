"""The weights of a model that learn, the format of the others, and the optimiser: values that are priced and trained."""

from anyformer.tuning.groups import Group
from anyformer.tuning.optimisers import SGD, Adafactor, AdamW, AdamW8bit, Lion, Muon, Optimiser, Pace, ScheduleFree
from anyformer.tuning.value import Base, Lora, Tuned, Tuning

__all__ = [
    "SGD",
    "Adafactor",
    "AdamW",
    "AdamW8bit",
    "Base",
    "Group",
    "Lion",
    "Lora",
    "Muon",
    "Optimiser",
    "Pace",
    "ScheduleFree",
    "Tuned",
    "Tuning",
]
