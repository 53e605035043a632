"""Portions of weights: what a process keeps of a model that is read, all of it or the share of one of several."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from anyformer.model.transformer import Transformer

Portion = Callable[[str, Tensor], Tensor]
"""What this process keeps of a whole weight, by its name; memory of its own where it is a part, so that the whole can go."""
Types = Callable[[str], torch.dtype]
"""The type in which a weight is held once it is read, by its name; known before it is read."""
Divide = Callable[[Transformer, Types], Portion]
"""Divides a whole model on the meta device among processes: from then on it is that of this process, and takes portions."""


def keep_whole(model: Transformer, types: Types) -> Portion:
    """`Divide` of the only process: every weight is whole."""
    return lambda name, weight: weight
