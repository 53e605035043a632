"""An objective whose loss is plain torch, trained in as many processes as this is started in: `FILE DIRECTORY CHANGES`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from anyformer.data import IGNORED
from anyformer.objectives import CausalObjective, Examples
from anyformer.training import load_run, train


class FocalObjective(CausalObjective):
    """-(1 - p)^2 log p of each next token (Lin et al. 2017, arXiv 1708.02002), by torch's own functions, which know nothing of
    divided logits."""

    kind: Literal["plain_focal"] = "plain_focal"

    def token_loss(self, logits: Tensor, examples: Examples) -> Tensor:
        every = logits.float().flatten(0, 1)
        nll = F.cross_entropy(every, examples.targets.flatten(), ignore_index=IGNORED, reduction="none")
        return ((1 - (-nll).exp()).square() * nll).sum()


if __name__ == "__main__":
    file, directory, changes = sys.argv[1:]
    train(load_run(Path(file), {"objective": {"kind": "plain_focal"}, **json.loads(changes)}), Path(directory))
