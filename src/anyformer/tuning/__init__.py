"""The weights of a model that learn, the format of the others, and the optimiser: values that are priced and trained."""

from anyformer.tuning.optimisers import SGD, Adafactor, AdamW, AdamW8bit, Lion, Muon, Optimiser
from anyformer.tuning.value import Base, Lora, Tuned, Tuning

__all__ = [
    "SGD",
    "Adafactor",
    "AdamW",
    "AdamW8bit",
    "Base",
    "Lion",
    "Lora",
    "Muon",
    "Optimiser",
    "Tuned",
    "Tuning",
]
