"""Types that are read here, hidden, and ported: how many load with equal logits as they are proposed.

    python -m benchmarks.port
    python -m benchmarks.port --drawing fifth

Thirty types are drawn by the SHA-256 of their names, the first in its order, of the text-capable types that are read with a
class of transformers. Of every one its file of families is taken away, with all types in it, and every other type whose
configuration class has the same keys and values but for names, tokens and the size of the vocabulary; catalogue entries are
never asked. Then a tiny random model of it is saved, `port` proposes a family against transformers, writes it, and the file
that was written is loaded and held against transformers by `verify`. The result goes to `results/port.json`.

`--drawing second` draws thirty more, by their names behind that word, of the types that neither the first drawing nor
development had, after `port` was improved by what these had shown: `results/port-second.json`. Every later one (`third`,
`fourth`, `fifth`) draws thirty of the rest, once `port` was improved by what the ones before it had shown.

A type that is `edited` was changed by hand after the trial: `port_edits/TYPE.diff` is the edit of the file that was written at
the trial's revision, with which the same check, `verify`, found equal logits; `lines` counts those that were added. Of one with
a `mended check` the file is as it was written, and `verify` was wrong, for what `check` says: the trial's revision, with that
file alone as it is since, finds equal logits.

`--salt WORD` draws others, as for development: no type of the first trial is in that drawing, and nothing is written.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import multiprocessing
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

import transformers  # noqa: E402

from anyformer import huggingface  # noqa: E402
from anyformer.describe import UserError, load_plugin  # noqa: E402
from anyformer.huggingface import registry  # noqa: E402
from anyformer.porting import proposal, write_port  # noqa: E402
from anyformer.porting.files import proved_words  # noqa: E402
from anyformer.porting.keys import LENGTHS  # noqa: E402
from huggingface.cases import CASES  # noqa: E402
from huggingface.every_type import text_capable  # noqa: E402
from huggingface.parity import _made  # noqa: E402

RESULT = Path(__file__).parent / "results" / "port.json"
LATER = ("second", "third", "fourth", "fifth")
"""The words of the drawings after the first, in order."""
COUNT = 30
DEVELOPED = ("dev", 40)
"""The drawing on which `port` was improved between the trials: its salt, and how many types."""
_NAMES = ("model_type", "architectures", "transformers_version", "_name_or_path", "vocab_size")


def digest(name: str, salt: str = "") -> str:
    """The number by which a type is drawn."""
    return hashlib.sha256(f"{salt}{name}".encode()).hexdigest()


def eligible() -> list[str]:
    """The text-capable types that are read with a class of transformers."""
    return [name for types in huggingface.FAMILIES.values() for name in types if name in text_capable()]


def drawn(salt: str = "", count: int = COUNT) -> list[str]:
    """The types of a trial: the first by their digests; with a salt others."""
    names = sorted(eligible(), key=digest)
    return names[:count] if not salt else sorted(names[COUNT:], key=lambda name: digest(name, salt))[:count]


def later(word: str) -> list[str]:
    """The types of a later trial: the first, by their digests behind its word, of those that no trial before it had, nor
    development; what these had, their results say, since more types are read now than at the time."""
    seen = {*drawn(*DEVELOPED)}
    for path in (RESULT, *map(result_of, LATER[: LATER.index(word)])):
        seen |= {row["type"] for row in json.loads(path.read_text(encoding="utf-8"))["types"]}
    return sorted((name for name in eligible() if name not in seen), key=lambda name: digest(name, word))[:COUNT]


def result_of(word: str) -> Path:
    """The file of a later trial's result."""
    return RESULT.with_name(f"port-{word}.json")


def hidden_with(name: str) -> list[str]:
    """The types that are hidden with one: those of its file, those whose configuration differs only in names, and those
    that are made of two others, which know it."""
    file = next(file for file, types in registry.FAMILIES.items() if name in types)
    mine = _defaults(name)
    others = [other for other in eligible() if other not in registry.FAMILIES[file] and mine and _defaults(other) == mine]
    made_of_others = [each for holder in registry.OF_OTHERS for each in registry.FAMILIES[holder]]
    return list(dict.fromkeys([*registry.FAMILIES[file], *others, *made_of_others]))


def _defaults(name: str) -> Mapping[str, Any]:
    try:
        table = transformers.CONFIG_MAPPING[name]().to_dict()
    except Exception:  # whatever a class asks of its arguments
        return {}
    return {key: str(value) for key, value in table.items() if key not in _NAMES and not key.endswith("token_id")}


def hide(names: Sequence[str]) -> None:
    """Forget types and their files, in this process for good."""
    files: dict[str, tuple[str, ...]] = registry.FAMILIES  # type: ignore[assignment]
    known: dict[str, str] = registry._FILES  # type: ignore[assignment]
    for file, types in list(files.items()):
        files[file] = tuple(each for each in types if each not in names)
    for name in names:
        known.pop(name, None)


def tried(name: str) -> dict[str, Any]:
    """One type: what was hidden, what was proposed, and whether the written file computes the same."""
    case = next(case for case in CASES if case.model_type == name)
    kernel = case.kernel or huggingface.family(name).kernel
    with TemporaryDirectory(prefix="anyformer-port-trial-") as place:
        _, directory = _made(name, json.dumps(case.config), case.task, kernel, case.untied)
        gone = hidden_with(name)
        hide(gone)
        row: dict[str, Any] = {"type": name, "hidden": gone, "outcome": "not", "base": "", "missing": ""}
        start = time.process_time()
        try:
            found = proposal(directory, "transformers")
            row |= {"base": found.derivation.base, "guesses": list(found.proof.taken) if found.proof else []}
            row["changes"] = [str(each) for each in found.derivation.changes]
            row["unknown"] = [each.key for each in found.unknown]
            if found.proof is None or not found.proof.equal:
                left = [each.name for each in found.fit.left] + [line.module.name for line in found.fit.missing]
                row["missing"] = proved_words(found) + (f" {', '.join(left[:8])}" if left else "")
            folder = Path(place) / "ports"
            written = write_port(found, folder, f"ported_{name.replace('-', '_')}")
            load_plugin(next(path for path in written if path.name.startswith("ported_") and path.suffix == ".py"))
            # Types with a table of positions compute no text that is longer.
            most = [found.table[key] for key in LENGTHS if isinstance(found.table.get(key), int)]
            verdict = huggingface.verify(directory, length=min([32, *most]))
            row["outcome"] = "untouched" if verdict.agrees else "not"
            if not verdict.agrees and not row["missing"]:
                row["missing"] = f"verify: the first to depart is {verdict.first_drift}"
        except UserError as error:
            row["missing"] = row["missing"] or str(error)[:400]
        except Exception as error:  # a fault of port is an outcome of the trial, not its end
            row["missing"] = f"{type(error).__name__}: {error}"[:400]
        return {**row, "seconds": round(time.process_time() - start, 1)}


def results(names: Sequence[str], jobs: int) -> Iterator[dict[str, Any]]:
    """The rows of all types, each in a process of its own."""
    with multiprocessing.get_context("fork").Pool(jobs, maxtasksperchild=1) as pool:
        yield from pool.imap_unordered(tried, names)


def counts_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """How many types ended how."""
    found = [row["outcome"] for row in rows]
    return {outcome: found.count(outcome) for outcome in ("untouched", "edited", "mended check", "not")}


def reached(path: Path) -> dict[str, dict[str, Any]]:
    """The rows of a trial of this revision that was stopped: it goes on where it was."""
    record = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if record.get("revision") != revision():
        return {}
    return {row["type"]: row for row in record["types"] if row["outcome"] != "not reached"}


def revision() -> str:
    """The commit that is tried."""
    asked = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()


def write(rows: Mapping[str, Any], names: Sequence[str], path: Path) -> None:
    """The result so far; types that were not reached are listed without an outcome."""
    made = {"revision": revision(), "transformers": transformers.__version__, "counts": counts_of(rows.values())}
    listed = [rows.get(name, {"type": name, "outcome": "not reached"}) for name in names]
    path.write_text(json.dumps({**made, "types": listed}, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Try every type of the drawing, and write the result."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.port", description=__doc__)
    parser.add_argument("--drawing", choices=("first", *LATER), default="first", help="which trial")
    parser.add_argument("--salt", default="", help="another drawing, for development")
    parser.add_argument("--count", type=int, default=COUNT, help="types")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--types", nargs="*", default=[], help="these types instead of a drawing")
    given = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    first = given.drawing == "first"
    result = RESULT if first else result_of(given.drawing)
    names = given.types or (drawn(given.salt, given.count) if first else later(given.drawing))
    kept = not given.salt and not given.types and given.count == COUNT
    rows = reached(result) if kept else {}
    for row in results([name for name in names if name not in rows], given.jobs):
        rows[row["type"]] = row
        if kept:
            write(rows, names, result)
        print(f"{row['outcome']:9} {row['type']:20} {row['base']:16} {row['seconds']:6} {row['missing'][:300]}", flush=True)
    print(counts_of(rows.values()))


if __name__ == "__main__":
    main()
