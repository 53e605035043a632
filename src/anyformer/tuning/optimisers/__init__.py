"""Optimisers: each is what it is, a description, and beside it what it runs, the rule by which a weight changes."""

from anyformer.tuning.optimisers.adafactor import Adafactor
from anyformer.tuning.optimisers.adamw import AdamW
from anyformer.tuning.optimisers.adamw_8bit import AdamW8bit
from anyformer.tuning.optimisers.lion import Lion
from anyformer.tuning.optimisers.muon import Muon
from anyformer.tuning.optimisers.optimiser import Optimiser, Pace
from anyformer.tuning.optimisers.schedule_free import ScheduleFree
from anyformer.tuning.optimisers.sgd import SGD

__all__ = ["SGD", "Adafactor", "AdamW", "AdamW8bit", "Lion", "Muon", "Optimiser", "Pace", "ScheduleFree"]
