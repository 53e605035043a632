"""What a layer keeps for its backward pass, estimated from its declared weights: one function, `kept`, for layouts to call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from anyformer.plan import Checkpointing
from anyformer.tally import Weight


@dataclass(frozen=True)
class Kept:
    """Bytes per token: `cut` are divided among tp ranks, `whole` only where positions are divided too (`Layout.sp`)."""

    cut: int = 0
    whole: int = 0

    def __add__(self, other: Kept) -> Kept:
        return Kept(self.cut + other.cut, self.whole + other.whole)

    def on(self, tokens: int, tp: int, *, sp: bool) -> int:
        """Bytes of one rank."""
        return tokens * (self.cut // tp + (self.whole // tp if sp else self.whole))


def kept(weights: Mapping[str, Weight], width: int, element: int, checkpointing: Checkpointing) -> Kept:
    """Bytes per token that one layer of these weights keeps, attention by a kernel that keeps no scores; e bytes per element.

    none         e * (outputs of column matrices, of gates twice, + inputs of row matrices) + (2e + 4) * features of norms
    elementwise  e * (outputs of column matrices + inputs of row matrices but those of feed-forward networks + norms' features)
    full         e * D, the input of the layer

    `+ 4` is a norm's input in fp32. A replicated matrix keeps its outputs. Experts are counted as often as a token chooses
    them, plus what is sent to them and comes back. Of one layer of Llama that is what PyTorch saves, but for small tensors.
    """
    if checkpointing == "full":
        return Kept(whole=element * width)
    everything = checkpointing == "none"
    found = Kept()
    for path, weight in weights.items():
        name = path.removesuffix(".weight").rsplit(".", 1)[-1]
        times = 2 if name == "gate" and everything else 1
        recomputed = name == "down" and not everything
        sides = len(weight.shape)
        if weight.role == "expert" and sides == 3:
            outputs, inputs = weight.shape[1:]
            chosen = weight.chosen or 1
            features = (0 if recomputed else inputs) + outputs if name == "down" else outputs * times
            found += Kept(whole=element * chosen * features)
            found += Kept(whole=element * chosen * width if name == "up" else 0)
        elif weight.role == "column" and sides == 2:
            found += Kept(cut=element * weight.shape[0] * times)
        elif weight.role == "row" and sides == 2 and not recomputed:
            found += Kept(cut=element * weight.shape[1])
        elif weight.role == "replicate" and sides == 2:
            found += Kept(whole=element * weight.shape[0])
        elif weight.role == "replicate" and "norm" in name:
            found += Kept(whole=(2 * element + 4 if everything else element) * weight.shape[0])
    return found
