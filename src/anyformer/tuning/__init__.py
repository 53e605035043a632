"""What of a model learns, in which format the rest is kept, and by which optimiser: values that are priced and trained."""

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
