"""`PYTHONPATH=tests:tests/contract python -m fuzz`: a full campaign, its result as JSON.

`--only commands --seeds 0:100`: a part of one.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from fuzz.campaign import KINDS, campaign


def main() -> None:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--only", choices=KINDS, action="append", help="attack only this; repeat for more")
    parser.add_argument("--seeds", metavar="FIRST:END", help="these seeds instead of a full campaign's")
    parser.add_argument("--output", type=Path, help="write the result here as JSON, beside what it holds of the others")
    given = parser.parse_args()
    results = {}
    for kind in given.only or KINDS:
        first, end = map(int, given.seeds.split(":")) if given.seeds else (0, KINDS[kind].cases)
        results[kind] = campaign(kind, range(first, end))
        print(kind, json.dumps(results[kind], indent=2), file=sys.stderr)
    whole = {
        "machine": platform.machine(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "attacked": results,
    }
    if given.output:
        if given.output.exists():
            whole["attacked"] = json.loads(given.output.read_text(encoding="utf-8"))["attacked"] | results
        given.output.write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")
    sys.exit(any(each["found"] for each in results.values()))


if __name__ == "__main__":
    main()
