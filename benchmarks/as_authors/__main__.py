"""Texts, likelihoods and fine-tuning of forty families beside those of transformers, lm-evaluation-harness and TRL.

    python -m benchmarks.as_authors                      # the 40 families, and the committed table
    python -m benchmarks.as_authors --only llama t5      # some of them
    python -m benchmarks.as_authors --python PYTHON      # an interpreter that has the tools

Each family is a tiny random model of transformers with a tokenizer that adds tokens, several ends and a chat template. Both
sides read the same directory: texts are compared token for token, log-likelihoods and losses to 1e-4. The tools live in an
environment of their own, which is made where no interpreter is given; it takes everything else from this one's. A family that
was compared is not compared again: --fresh forgets. Writes benchmarks/results/as_authors.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path
from typing import Any

import torch
from benchmarks.as_authors.comparing import compared, equal
from benchmarks.as_authors.families import FAMILIES, write
from benchmarks.as_authors.ours import told
from rich.progress import track

RESULT = Path(__file__).parents[1] / "results" / "as_authors.json"
REFERENCE = Path(__file__).parent / "reference.py"
TOOLS = ("lm-eval", "trl")


def environment(place: Path) -> Path:
    """An interpreter that has the tools, beside all that this one has."""
    python = place / "bin" / "python"
    if not python.exists():
        venv.create(place, with_pip=True)
        own = next(place.glob("lib/python*/site-packages"))
        (own / "beside.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
        subprocess.run([python, "-m", "pip", "install", "--quiet", *TOOLS], check=True)
    return python


def theirs(python: Path, place: Path, names: list[str]) -> None:
    """Let the tools say what they make of the directories; each family's file is written when it is done."""
    if not names:
        return
    asked = [f"{name}={FAMILIES[name].shape}" for name in names]
    log = place / "tools.log"
    with (
        log.open("w") as errors,
        subprocess.Popen([python, REFERENCE, place, *asked], stdout=subprocess.PIPE, stderr=errors, text=True) as done,
    ):
        assert done.stdout is not None
        for _ in track((line for line in done.stdout if line.strip() in names), "their tools", total=len(names)):
            pass
    if done.returncode:
        raise SystemExit(f"the tools failed: {log.read_text()[-2000:]}")


def main() -> None:
    """Compare, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=FAMILIES, default=list(FAMILIES), metavar="FAMILY")
    parser.add_argument("--python", type=Path, help="an interpreter that has lm-eval and trl")
    parser.add_argument("--fresh", action="store_true", help="compare again what was compared")
    parser.add_argument("--place", type=Path, default=Path(tempfile.gettempdir()) / "anyformer-as-authors")
    given = parser.parse_args()
    torch.set_num_threads(1)
    given.place.mkdir(parents=True, exist_ok=True)
    table: dict[str, Any] = json.loads(RESULT.read_text()) if RESULT.exists() else {"versions": {}, "families": {}}
    left = [name for name in given.only if given.fresh or name not in table["families"]]
    for name in left:
        write(FAMILIES[name], given.place / name)
    own = {name: said(name, given.place) for name in track(left, "our side")}  # before theirs, which reads its hidden rows
    theirs(given.python or environment(given.place / "tools"), given.place, left)
    for name in left:
        other = json.loads((given.place / f"{name}.theirs.json").read_text())
        table["versions"] = other["versions"]
        table["families"][name] = {"shape": FAMILIES[name].shape, "checks": compared(own[name], other)}
        RESULT.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    for name in given.only:
        checks = table["families"][name]["checks"]
        wrong = {what: check["differs"] or check["difference"] for what, check in checks.items() if not equal(check)}
        print(f"{name}: {len(checks) - len(wrong)} of {len(checks)} equal{f', different: {wrong}' if wrong else ''}")
    if any(not equal(check) for name in given.only for check in table["families"][name]["checks"].values()):
        sys.exit(1)


def said(name: str, place: Path) -> dict[str, Any]:
    """What is said here of a family, remembered in a file."""
    try:
        found = told(FAMILIES[name].shape, place / name)
    except Exception as error:  # what fails here is a row of the table, and the others go on
        found = {"failed": f"{type(error).__name__}: {error}"}
    (place / f"{name}.ours.json").write_text(json.dumps(found), encoding="utf-8")
    return found


if __name__ == "__main__":
    main()
