"""Studies: runs that differ in what is asked, at matched sizes, tuned alike, over several seeds, with verdicts and costs."""

from anyformer.studies.arms import ResolvedArm, resolve_arms
from anyformer.studies.comparing import compare, forecast
from anyformer.studies.findings import Findings
from anyformer.studies.reading import load_study
from anyformer.studies.sizes import Gate, Ladder
from anyformer.studies.study import Arm, Matching, Staircase, Study, Tuning

__all__ = [
    "Arm",
    "Findings",
    "Gate",
    "Ladder",
    "Matching",
    "ResolvedArm",
    "Staircase",
    "Study",
    "Tuning",
    "compare",
    "forecast",
    "load_study",
    "resolve_arms",
]
