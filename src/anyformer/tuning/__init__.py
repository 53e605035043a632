"""The weights of a model that learn, the format of the others, and the optimiser: values that are priced and trained."""

from anyformer.tuning.adapter import Adapter
from anyformer.tuning.dora import Dora
from anyformer.tuning.groups import WeightGroup
from anyformer.tuning.lora import Lora
from anyformer.tuning.optimisers import SGD, Adafactor, AdamW, AdamW8bit, Lion, Muon, Optimiser, Pace, ScheduleFree
from anyformer.tuning.prompt import Prompt
from anyformer.tuning.value import Base, Tuned, Tuning

__all__ = [
    "SGD",
    "Adafactor",
    "AdamW",
    "AdamW8bit",
    "Adapter",
    "Base",
    "Dora",
    "Lion",
    "Lora",
    "Muon",
    "Optimiser",
    "Pace",
    "Prompt",
    "ScheduleFree",
    "Tuned",
    "Tuning",
    "WeightGroup",
]
