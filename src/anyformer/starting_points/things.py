"""What can be started: its template, where its names may be taken, and a command that uses it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

Taken = Callable[[], Collection[str]]
"""The names that are taken, of which plug-ins that the user named may have some."""


def _sublayers() -> Collection[str]:
    from anyformer.parts.sublayer import Sublayer

    return Sublayer.kinds.keys()


def _norms() -> Collection[str]:
    from anyformer.parts.norms.norm import Norm

    return Norm.kinds.keys()


def _masks() -> Collection[str]:
    from anyformer.parts.masks.mask import Mask

    return Mask.kinds.keys()


def _weighings() -> Collection[str]:
    from anyformer.parts import Weigh

    return Weigh.kinds.keys()


def _selections() -> Collection[str]:
    from anyformer.parts.experts.selection import Selection

    return Selection.kinds.keys()


def _in_slots() -> Collection[str]:
    """Names of parts that stand in any slot: an attention finds each by its name alone."""
    from anyformer.parts import Adjustment, Attention, Combine, Place, Remembered, Term

    slots = (Adjustment, Place, Term, Combine, Remembered)
    return {*Attention.model_fields, *(name for slot in slots for name in slot.members)}


def _activations() -> Collection[str]:
    from anyformer.parts.pointwise.activation import ACTIVATIONS

    return ACTIVATIONS.keys()


def _objectives() -> Collection[str]:
    from anyformer.objectives import Objective

    return Objective.kinds.keys()


def _optimisers() -> Collection[str]:
    from anyformer.tuning import Optimiser

    return Optimiser.kinds.keys()


def _tasks() -> Collection[str]:
    from anyformer.tasks import Task

    return Task.kinds.keys()


def _rewards() -> Collection[str]:
    from anyformer.rewards import Reward

    return Reward.kinds.keys()


def _families() -> Collection[str]:
    from anyformer.huggingface.registry import model_types

    return model_types()


@dataclass(frozen=True)
class Thing:
    """Something that can be started. Its template is `NAME.jinja`."""

    name: str
    what: str
    """What it is, in words."""
    taken: Taken
    use: str
    """A command that uses it from a plug-in; {snake} stands for its name."""
    suffix: str = ""
    """A word that names of its classes end with."""
    alone: bool = True
    """Whether it may stand outside the package."""


PLUGIN = " --plugin {snake}.py"
_ATTENTION = "anyformer show gpt2 --tiny --set decoder.layer.attention"
_TRAIN = "anyformer train llama-12m --tiny --set steps=20"
_THINGS = (
    Thing(
        "mixer", "a mixer of positions with a state", _sublayers,
        _ATTENTION + ".sublayer='{{kind=\"{snake}\",channels=16}}'" + PLUGIN,
    ),
    Thing(
        "sublayer", "a sublayer that mixes no positions", _sublayers,
        "anyformer show gpt2 --tiny --set decoder.layer.feedforward.sublayer='{{kind=\"{snake}\",width=16}}'" + PLUGIN,
    ),
    Thing("norm", "a norm", _norms, "anyformer show gpt2 --tiny --set decoder.final_norm='{{kind=\"{snake}\"}}'" + PLUGIN),
    Thing("mask", "a mask", _masks, _ATTENTION + ".mask='{{kind=\"{snake}\"}}'" + PLUGIN),
    Thing(
        "weigh", "a function from scores to attention weights", _weighings,
        _ATTENTION + ".weigh='{{kind=\"{snake}\"}}'" + PLUGIN,
    ),
    Thing(
        "combine", "what is done with the mixed heads of attention", _in_slots,
        _ATTENTION + ".combine='{{{snake}={{}}}}'" + PLUGIN,
    ),
    Thing(
        "term", "what is added to the scores of attention", _in_slots,
        _ATTENTION + ".score.terms='{{{snake}={{}}}}'" + PLUGIN,
    ),
    Thing(
        "place", "what positions do to queries and keys", _in_slots, _ATTENTION + ".place='{{{snake}={{}}}}'" + PLUGIN,
    ),
    Thing(
        "adjust", "what changes queries, keys or values of attention", _in_slots,
        _ATTENTION + ".project.adjust='{{{snake}={{}}}}'" + PLUGIN,
    ),
    Thing(
        "choice", "a choice of experts", _selections,
        "anyformer show mixtral-8x7b --tiny --set decoder.layer.experts.router.choice='{{kind=\"{snake}\"}}'" + PLUGIN,
    ),
    Thing("activation", "an activation", _activations, "", alone=False),
    Thing(
        "objective", "a training objective", _objectives,
        _TRAIN + " --data python-stdlib --set objective='{{kind=\"{snake}\"}}'" + PLUGIN, suffix="Objective",
    ),
    Thing(
        "optimiser", "an optimiser", _optimisers,
        _TRAIN + " --data python-stdlib --set optimiser='{{kind=\"{snake}\"}}'" + PLUGIN,
    ),
    Thing("task", "a generated task", _tasks, _TRAIN + " --data {snake}" + PLUGIN),
    Thing(
        "reward", "a reward", _rewards, "anyformer reward answers.jsonl --reward {snake}" + PLUGIN, suffix="Reward",
    ),
    Thing("family", "a family of Hugging Face models", _families, "anyformer check {snake}.py --only logits"),
)  # fmt: skip
THINGS: Mapping[str, Thing] = MappingProxyType({thing.name: thing for thing in _THINGS})
