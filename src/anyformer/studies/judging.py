"""The findings of a study, without verdicts on arms that did not train."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from anyformer.describe import UserError
from anyformer.studies.findings import Findings, findings
from anyformer.studies.running import Ran
from anyformer.studies.trained import METRIC, Unread, fairly, learnt, reasons, unread


def told(ran: Ran) -> Findings:
    """What the trials of a study tell, judged where its metric is the loss."""
    found, study = findings(ran), ran.study
    if study.metric != METRIC:
        return found
    try:
        known = unread({arm.name: arm.run.but(seed=study.seeds[0]) for arm in ran.arms})
    except (UserError, OSError) as error:
        note = f"whether arms trained at all is not judged, since their data is not on this machine: {error}"
        return replace(found, notes=(*found.notes, note))
    return judged(found, known)


def judged(found: Findings, known: Mapping[str, Unread]) -> Findings:
    """The findings, without verdicts on arms that did not train; `known`: by arm, what reads nothing and its loss."""
    losses = {arm.name: arm.quality.value for arm in found.arms if arm.quality is not None}
    shares, why = learnt(losses, known), reasons(losses, known)
    return replace(
        found,
        unread=known,
        arms=tuple(replace(arm, learnt=shares.get(arm.name)) for arm in found.arms),
        comparisons=tuple(fairly(each, found.base, shares, why) for each in found.comparisons),
        lengths=tuple(
            replace(at, comparisons=tuple(fairly(each, found.base, shares, why) for each in at.comparisons))
            for at in found.lengths
        ),
    )
