"""When a circuit counts as found, fixed before the seeds from 4 on were trained; `python -m benchmarks.circuits` tells all.

Every criterion must hold. Half of an attention weight, of a logit and of the edges are our lines; what is asked is the papers':

- what heads look at: the prefix-matching and previous-token scores of Olsson et al. 2022 (arXiv 2209.11895), the attention of
  name movers and of contrastive heads (Wang et al. 2022, arXiv 2211.00593; Adhikari 2025, arXiv 2510.25013);
- that they are needed: knocked out together, by their means (Wang et al., section 2.2; Olsson et al., argument 3);
- that the edges which stay are enough: faithfulness on sequences that the circuit was not found on. The circuit of Wang et al.
  has 87 % of its model's logit difference, and 80 % are asked here;
- that they are few, and that the heads stand in them in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

LEARNT: Final = 0.95
"""Least accuracy: a model that cannot do the task has no circuit of it."""
LOOKS: Final = 0.5
"""The attention weight from which a head is said to look for something."""
SHARED: Final = 0.2
"""The attention to the indirect object from which a head that raises its logit is a name mover: several share the work."""
NATS: Final = 1.0
"""Least loss of the answer's log-probability without heads that are needed."""
LOST: Final = 0.5
"""Least share of a logit difference that is lost without heads that are needed."""
FAITHFUL: Final = 0.8
"""Least share of the logit difference that the circuit keeps."""
EDGES: Final = 0.5
"""Largest share of the edges that a circuit has."""

Holds = Callable[[Mapping[str, Any]], bool]
COMMON: Final[Mapping[str, Holds]] = {
    "the task is learnt": lambda row: row["accuracy"] >= LEARNT,
    "faithful": lambda row: row["faithfulness"] >= FAITHFUL,
    "few edges": lambda row: len(row["circuit"]["edges"]) <= EDGES * row["circuit"]["considered"],
}
CRITERIA: Final[Mapping[str, Mapping[str, Holds]]] = {
    "induction": {
        **COMMON,
        "heads look": lambda row: row["previous"] >= LOOKS and row["induction"] >= LOOKS,
        "heads are needed": lambda row: min(row["nats without"].values()) >= NATS,
        "heads are composed": lambda row: row["composed"],
    },
    "indirect object": {
        **COMMON,
        "heads look": lambda row: row["name movers"] >= 1 and row["contrastive heads"] >= 1,
        "heads are needed": lambda row: min(row["lost without"].values()) >= LOST,
        "heads are composed": lambda row: row["heard"] and row["at the output"],
    },
}
