"""What a plug-in says of a part a second time, to be held against it: its formula, its work, what its weights start as."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from anyformer.describe import Value
from anyformer.parts.norms.norm import Norm
from anyformer.parts.slot import SlotPart
from anyformer.parts.sublayer import Sublayer
from anyformer.testing import formulas, twins, weights
from anyformer.testing.checks import Checks
from anyformer.testing.promise import Promise


def said_twice(of: str, name: str, part: Value, given: Checks) -> Iterator[Promise]:
    """The promises of a part by itself, `name` its kind or its name in a slot."""
    equal, work = formulas.part_equals_its_formula, formulas.declared_work_is_that_of_its_formula
    if isinstance(part, Norm):
        yield Promise(of, formulas.statistics_are_in_fp32.__name__, partial(formulas.statistics_are_in_fp32, part))
    if name in given.formulas:
        yield Promise(of, equal.__name__, partial(equal, part, given.formulas[name]))
        if formulas.has_counted_work(part):
            yield Promise(of, work.__name__, partial(work, part, given.formulas[name]), needs=(equal.__name__,))
    elif isinstance(part, Sublayer) and name in given.twins:
        near = twins.declared_work_is_near_that_of_its_twin
        yield Promise(of, near.__name__, partial(near, part, given.twins[name]))
    elif formulas.has_formula(part):
        missing = "give its formula in plain operations in Checks(formulas={...}) to compare with"
        yield Promise(of, equal.__name__, missing=missing, needed=False)
    if isinstance(part, SlotPart):
        yield Promise(of, weights.axes_count_what_they_name.__name__, partial(weights.axes_count_what_they_name, part))
    if name in given.starts:
        start = weights.weights_start_as_said
        yield Promise(of, start.__name__, partial(start, part, given.starts[name]))
