"""All wrong things. Their kinds are unknown but within `known()`: other tests ask every kind that there is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from unittest import mock

from anyformer.objectives import Objective
from anyformer.parts.layers.multi_token import MultiToken
from anyformer.parts.masks.mask import Mask
from anyformer.parts.norms.norm import Norm
from anyformer.parts.sublayer import Sublayer
from anyformer.tasks import Task
from anyformer.tuning import Optimiser

REGISTRIES = [base.kinds._classes for base in (Mask, MultiToken, Norm, Objective, Optimiser, Sublayer, Task)]
before = [dict(registry) for registry in REGISTRIES]

from tests.testing.wrong import mixers_built, mixers_declared, mixers_decoding, mixers_opened, mixers_rows  # noqa: E402, F401
from tests.testing.wrong.alone import ALONE  # noqa: E402
from tests.testing.wrong.families import FAMILIES  # noqa: E402
from tests.testing.wrong.mixers import MIXERS  # noqa: E402
from tests.testing.wrong.models import WHOLE  # noqa: E402
from tests.testing.wrong.objectives import OBJECTIVES  # noqa: E402
from tests.testing.wrong.optimisers import OPTIMISERS  # noqa: E402
from tests.testing.wrong.tasks import TASKS  # noqa: E402

KINDS = [dict(registry.items() - old.items()) for registry, old in zip(REGISTRIES, before, strict=True)]
for registry, own in zip(REGISTRIES, KINDS, strict=True):
    for kind in own:
        del registry[kind]
TABLES = {
    "mixers": MIXERS,
    "alone": ALONE,
    "whole": WHOLE,
    "tasks": TASKS,
    "objectives": OBJECTIVES,
    "optimisers": OPTIMISERS,
    "families": FAMILIES,
}


@contextlib.contextmanager
def known() -> Iterator[None]:
    """Within, the kinds of wrong things are known."""
    with contextlib.ExitStack() as stack:
        for registry, own in zip(REGISTRIES, KINDS, strict=True):
            stack.enter_context(mock.patch.dict(registry, own))
        yield
