"""What parts of an architecture are called in a chart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


def shown(names: Iterable[str]) -> dict[str, str]:
    """Names without plumbing, and without the stack where one alone has it: `decoder.cross_attention` -> `cross attention`."""
    words = {name: [word for word in name.split(".") if word not in ("layers", "sublayer")] for name in names}
    tails = Counter(tuple(each[1:]) for each in words.values())
    return {
        name: " ".join(each[1:] if len(each) > 1 and tails[tuple(each[1:])] == 1 else each).replace("_", " ")
        for name, each in words.items()
    }
