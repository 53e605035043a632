"""Studies: runs that differ in what is asked, at matched sizes, tuned alike, over several seeds, with verdicts and costs."""

from anyformer.studies.arms import ResolvedArm, resolve_arms
from anyformer.studies.comparing import compare, forecast
from anyformer.studies.findings import Findings
from anyformer.studies.reading import load_study
from anyformer.studies.sizes import Ladder, SizeGate
from anyformer.studies.study import Arm, ArmTuning, Matching, Staircase, Study

__all__ = [
    "Arm",
    "ArmTuning",
    "Findings",
    "Ladder",
    "Matching",
    "ResolvedArm",
    "SizeGate",
    "Staircase",
    "Study",
    "compare",
    "forecast",
    "load_study",
    "resolve_arms",
]
