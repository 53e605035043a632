"""Ask about claims of the lecture notes.

    python -m benchmarks.claims            every claim with its verdict
    python -m benchmarks.claims NAME ...   these claims; what is measured is measured now
    python -m benchmarks.claims --write    measure what is measured into benchmarks/results/claims.json

`python docs/make_claims.py` then writes docs/reference/claims.md.
"""

from __future__ import annotations

import argparse
import json
from datetime import date
from typing import Any

import torch
from benchmarks.claims import CLAIMS, RESULT, Claim
from benchmarks.claims.claim import computed
from benchmarks.compare import machine
from benchmarks.protocol import versions


def say(claim: Claim, *, again: bool) -> None:
    """Print one claim."""
    figures = claim.figures() if again else claim.known()
    print(f"{claim.name} ({claim.how}): {claim.sentence}\n  {claim.told(figures)}\n  {claim.verdict(figures)}")


def rounded(value: Any) -> Any:
    """Six digits, of which a page shows fewer."""
    return float(f"{value:.6g}") if isinstance(value, float) else value


def write() -> None:
    """Measure every measured claim, one thread, and keep the figures."""
    found = {}
    for claim in CLAIMS.values():
        if claim.how == "measured":
            found[claim.name] = {name: rounded(value) for name, value in computed(claim.figures).items()}
            print(f"{claim.name}: {found[claim.name]}", flush=True)
    record = {"date": date.today().isoformat(), "machine": machine(), "versions": versions("torch"), "figures": found}
    RESULT.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="claims by name; by default all, with committed figures")
    parser.add_argument("--write", action="store_true", help="measure, and write the result file")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.names if name not in CLAIMS]:
        parser.error(f"there is no claim {unknown[0]!r}; without a name all are listed")
    torch.set_num_threads(1)
    if arguments.write:
        write()
    for name in arguments.names or ([] if arguments.write else CLAIMS):
        say(CLAIMS[name], again=bool(arguments.names))


if __name__ == "__main__":
    main()
