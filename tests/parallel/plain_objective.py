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


class PlainObjective(CausalObjective):
    """Cross-entropy of the next token by torch's own function, which knows nothing of divided logits."""

    kind: Literal["plain_objective"] = "plain_objective"

    def token_loss(self, logits: Tensor, examples: Examples) -> Tensor:
        every = logits.float().flatten(0, 1)
        return F.cross_entropy(every, examples.targets.flatten(), ignore_index=IGNORED, reduction="sum")


if __name__ == "__main__":
    file, directory, changes = sys.argv[1:]
    train(load_run(Path(file), {"objective": {"kind": "plain_objective"}, **json.loads(changes)}), Path(directory))
