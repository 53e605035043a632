"""Whether the static site prices changes as we do: 2,000 changes of catalogue entries, evaluated by node as a page does it.

    python -m benchmarks.atlas [--changes 2000] [--seed 0]

A change moves one to three whole numbers of an entry, or gives or takes away one that may be absent, as a window (a half of
the time the length, a third of the time the batch too), on one of the accelerators at some dollars for an hour. What our
description refuses the page must not answer; what it takes is priced from the changed description, and every figure of the
page must be the same to the unit, every quotient the same double, and times, which are sums, the same to twelve digits.
Changes that leave the page's table are counted, not compared: the page says so. No speed but that of the page's evaluation,
which node takes.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import shutil
import statistics
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.compare import RESULTS, machine

import anyformer as af
from anyformer.atlas.evaluator import Programs
from anyformer.atlas.evaluator_places import places
from anyformer.catalogue import listing
from anyformer.costs.hardware import HARDWARE
from anyformer.costs.page import longest
from anyformer.describe import UserError, change_all, parse_assignment
from anyformer.exploring.figures import figures, sheet_of
from anyformer.exploring.question import RATE, PricedCall
from anyformer.exploring.site_times import accelerator_numbers, site_pieces
from anyformer.model import Architecture

PAGE = Path(af.__file__).with_name("exploring") / "page"
EVALUATOR = ("evaluator.js", "numbered.js")
LENGTHS = (2, 100, 512, 1000, 4096, 8192, 131_072, 1_000_000)
BATCHES = (1, 3, 8, 64)
RATES = (RATE, 0.0, 0.45, 3.1, 98.32)
NODE = """
import { readFileSync, writeFileSync } from "node:fs";
import { exactly } from "./evaluator.js";
const read = async (address) => JSON.parse(readFileSync(address, "utf8"));
const plain = (key, value) => (typeof value === "bigint" ? `bigint:${value}` : value);
const answers = [];
for (const { name, changes, call } of await read("changes.json")) {
  const sheet = await read(`${name}.json`);
  await exactly(sheet, [], {}, read).catch(() => null);
  const start = performance.now();
  let answer;
  try {
    answer = { figures: await exactly(sheet, changes, call, read) };
  } catch (error) {
    if (!error.errors) throw error;
    answer = error;
  }
  answers.push({ ...answer, milliseconds: performance.now() - start });
}
writeFileSync("answers.json", JSON.stringify(answers, plain));
"""


@dataclass(frozen=True)
class Changed:
    """Changes of an entry, [path, text], and a call, on an accelerator at so many dollars for an hour."""

    name: str
    changes: list[tuple[str, str]]
    call: dict[str, int]
    on: str = "h100"
    rate: float = RATE

    @property
    def data(self) -> dict[str, Any]:
        """What the page is asked."""
        numbers = accelerator_numbers(PricedCall(rate=self.rate), self.on)
        return {"name": self.name, "changes": self.changes, "call": {**self.call, "accelerators": [{"numbers": numbers}]}}

    def ours(self) -> Any:
        """Our figures; None where the description refuses the changes."""
        base = af.architecture(self.name)
        try:
            architecture = change_all(base, dict(parse_assignment(f"{path}={text}") for path, text in self.changes))
            return figures_of(architecture, self.call["batch"], self.call["length"], self.on, self.rate)
        except (UserError, ValueError):
            return None


def figures_of(architecture: Architecture, batch: int, length: int, on: str = "h100", rate: float = RATE) -> Any:
    """Every figure that the explorer shows, from the description itself."""
    call = PricedCall(batch=batch, length=length, on=(on,), rate=rate)
    return figures(sheet_of(architecture, call), call)


def moved(drawn: random.Random, value: int) -> int:
    """Another number of the same order."""
    ways = (
        value * drawn.choice((2, 3, 4)),
        value // drawn.choice((2, 3, 4)),
        value + 1,
        value - 1,
        drawn.randint(1, 2 * value + 2),
    )
    return max(1, drawn.choices(ways, (3, 3, 1.5, 1, 1.5))[0])


def text_of(drawn: random.Random, now: Any, *, optional: bool = False) -> str:
    """What stands at a place with one of its numbers moved, as `--set` has it; an `optional` one is taken away, or given."""
    if now is None:
        return str(drawn.choice((1, 2, 4, 8, 64, 128)))
    if optional and drawn.random() < 1 / 2:
        return "none"
    if isinstance(now, int):
        return str(moved(drawn, now))
    text = now if isinstance(now, str) else str(now)
    numbers = list(re.finditer(r"(?<=\*)\d+" if isinstance(now, str) else r"\d+", text))
    chosen = drawn.choice(numbers)
    return f"{text[: chosen.start()]}{moved(drawn, int(chosen[0]))}{text[chosen.end() :]}"


def changes_of(drawn: random.Random, place: dict[str, Any]) -> list[tuple[str, str]]:
    """Changes of a place: of its numbers, or of the kind that has one or is without it."""
    path, kinds = drawn.choice(place["paths"]), place.get("kinds")
    if kinds is None or (place["now"] is not None and drawn.random() < 1 / 2):
        return [(path, text_of(drawn, place["now"], optional="optional" in place))]
    part, _, name = path.rpartition(".")
    if place["now"] is not None:
        return [drawn.choice([(f"{part}.kind", kinds[0]), (part, f'{{kind = "{kinds[0]}"}}')])]
    size = str(drawn.choice((1, 7, 128, 512, 4096, 100_000)))
    apart = [(f"{part}.kind", kinds[1]), (path, size)]
    return drawn.choice([apart, [(part, f'{{kind = "{kinds[1]}", {name} = {size}}}')]])


def drawn_change(drawn: random.Random, name: str, sheet: dict[str, Any]) -> Changed:
    """A change of one to three places of an entry."""
    free = [place for place in sheet["inputs"] if place["paths"] and not place["fixed"]]
    chosen = drawn.sample(free, min(len(free), drawn.choice((1, 1, 2, 3))))
    call = {name: sheet["call"][name] for name in ("batch", "length")}
    if drawn.random() < 1 / 2:
        call["length"] = drawn.choice(LENGTHS)
    if drawn.random() < 1 / 3:
        call["batch"] = drawn.choice(BATCHES)
    changes = [change for place in chosen for change in changes_of(drawn, place)]
    return Changed(name, changes, call, drawn.choice(list(HARDWARE)), drawn.choice(RATES))


def sheets(names: list[str]) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """(name, what of its sheet the evaluator reads, its program) of every entry."""
    asked = PricedCall()
    programs, accelerator = Programs(site_pieces(asked)), accelerator_numbers(asked, "h100")
    for name in names:
        made = af.architecture(name)
        length = min(4096, longest(made) or 4096)
        numbers = (1, length, length, *accelerator)
        program, inputs = programs.of(made, numbers)
        call = {"batch": 1, "length": length}
        yield (
            name,
            {"program": f"{program.digest}.program", "inputs": places(made, program, inputs, len(numbers)), "call": call},
            program.data(),
        )


def evaluated(folder: Path, changes: list[Changed]) -> list[dict[str, Any]]:
    """The answers of the page's own evaluator, by node."""
    for name in EVALUATOR:
        shutil.copy(PAGE / name, folder / name)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "main.mjs").write_text(NODE)
    (folder / "changes.json").write_text(json.dumps([each.data for each in changes]))
    subprocess.run(["node", "main.mjs"], cwd=folder, check=True)
    return json.loads((folder / "answers.json").read_text())


def exact(found: Any) -> Any:
    """What node wrote, its great whole numbers as such."""
    if isinstance(found, dict):
        return {name: exact(item) for name, item in found.items()}
    if isinstance(found, list):
        return list(map(exact, found))
    return int(found.removeprefix("bigint:")) if isinstance(found, str) and found.startswith("bigint:") else found


def differs(page: Any, ours: Any) -> bool:
    """Whether a figure of the page is not ours; it may lack pieces, where null stands."""
    if page is None:
        return False
    if isinstance(page, dict):
        near = {"accelerators"} & page.keys()
        return not isinstance(ours, dict) or any(
            name not in ours or (times_differ if name in near else differs)(item, ours[name]) for name, item in page.items()
        )
    if isinstance(page, list):
        return not isinstance(ours, list) or len(page) != len(ours) or any(map(differs, page, ours))
    return bool(page != ours)


def times_differ(page: Any, ours: Any) -> bool:
    """The same of times, prices and rates, whose seconds may be added in another order."""
    if isinstance(page, dict):
        return any(times_differ(item, ours[name]) for name, item in page.items())
    if isinstance(page, list):
        return len(page) != len(ours) or any(map(times_differ, page, ours))
    if page is None:
        return False
    return not math.isclose(page, ours, rel_tol=1e-12) if isinstance(ours, float) else bool(page != ours)


def compared(count: int, seed: int) -> dict[str, Any]:
    """Changes until the page has answered so many."""
    drawn, outcomes, wrong, spent = random.Random(seed), Counter[str](), [], []
    with tempfile.TemporaryDirectory() as place:
        folder, known = Path(place), dict[str, dict[str, Any]]()
        for name, sheet, program in sheets([entry.name for entry in listing()]):
            (folder / f"{name}.json").write_text(json.dumps(sheet))
            (folder / sheet["program"]).write_text(json.dumps(program))
            known[name] = sheet
        moved_words = Counter[str]()
        while outcomes["equal"] + len(wrong) < count:
            names = list(known)
            changes = [drawn_change(drawn, name, known[name]) for name in drawn.sample(names, len(names))]
            for change, answer in zip(changes, evaluated(folder, changes), strict=True):
                ours, page = change.ours(), exact(answer.get("figures"))
                outcome = "refused" if ours is None and page is None else "beyond the table" if page is None else "equal"
                if page is not None and (ours is None or differs(page, json.loads(json.dumps(ours)))):
                    wrong.append({**vars(change), "refused by us": ours is None})
                    continue
                outcomes[outcome] += 1
                if outcome == "equal":
                    outcomes["with times"] += bool(page["accelerators"][0]["modes"]) if page.get("accelerators") else 0
                    spent.append(answer["milliseconds"])
                    moved_words.update(path.rpartition(".")[2] for path, _ in change.changes)
                if outcomes["equal"] + len(wrong) == count:
                    break
    cuts = statistics.quantiles(spent, n=20)
    return {
        "seed": seed, "entries": len(known), **outcomes, "wrong": wrong,
        "milliseconds": {"median": cuts[9], "95 %": cuts[18], "most": max(spent)},
        "moved": dict(moved_words.most_common(40)),
    }  # fmt: skip


def main() -> None:
    """Compare, print, write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--changes", type=int, default=2000, help="how many the page has to answer")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    record = {"date": date.today().isoformat(), "machine": machine(), **compared(asked.changes, asked.seed)}
    print(json.dumps(record, indent=1))
    (RESULTS / "atlas.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
