"""Writes the tables of docs/tasks.md: the tasks from their classes, known answers from their committed result.

python docs/make_tasks.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from anyformer.data import IGNORED
from anyformer.describe.docstrings import first_sentence
from anyformer.tasks import NOTHING, Draws, Task

PAGE = Path(__file__).with_name("tasks.md")
RESULT = Path(__file__).parents[1] / "benchmarks" / "results" / "known_answers.json"
SHOWN = {
    "mqar": {"pairs": 3},
    "selective_copying": {"items": 3},
    "fuzzy_recall": {"pairs": 2, "span": 2},
}
"""Fields under which a sequence fits into a line."""
LENGTH = 12
TITLES = {
    "recall": "recall: a layer of gated convolution, then one of the mixer",
    "parity": "parity: two layers of the mixer, trained on 4 to 32 bits",
    "induction": "induction: layers of attention",
}


def page() -> str:
    """The page with its tables as of today."""
    text = PAGE.read_text(encoding="utf-8")
    for name, lines in TABLES.items():
        table = re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- end of {name} -->)", re.S)
        assert table.search(text), f"the page has no place for {name}"
        made = "\n".join(lines()) + "\n"
        text = table.sub(lambda _, made=made: made, text)
    return text


def tasks() -> Iterator[str]:
    """Every task: what it is, a sequence, what is scored, the chance, the paper."""
    for kind in sorted(Task.kinds):
        entry = Task.kinds[kind]
        task = entry.parse(SHOWN.get(kind, {}))
        usual = entry()
        length = min(max(usual.least, 64), usual.most or 64)
        read, asked = example(task)
        yield f"### `{kind}`\n"
        yield first_sentence(entry).rstrip(".") + ".\n"
        yield f"```\nread   {read}\nasked  {asked}\n```\n"
        fields = ", ".join(f"`{name} = {getattr(usual, name)}`" for name in entry.model_fields if name != "kind")
        yield f"Scored: {entry.scored}. Chance: {entry.level}; {usual.chance(length):.4g} with the defaults at length {length}."
        yield f"{f'Fields: {fields}. ' if fields else ''}Paper: {entry.paper}.\n"


def example(task: Any) -> tuple[str, str]:
    """A sequence, and beneath each symbol what is asked there."""
    length = max(task.least, min(LENGTH, task.most or LENGTH))
    made = task.draw(Draws.of(np.arange(40), 0), length)
    row = int(np.flatnonzero(made.valid)[0])
    read = [task.symbols[number] for number in made.tokens[row].tolist() if number != NOTHING]
    wanted = ["" if number == IGNORED else task.symbols[number] for number in made.targets[row, : len(read)].tolist()]
    wide = [max(len(one), len(other)) for one, other in zip(read, wanted, strict=True)]
    lines = (" ".join(f"{symbol:<{size}}" for symbol, size in zip(line, wide, strict=True)).rstrip() for line in (read, wanted))
    return tuple(lines)  # type: ignore[return-value]


def answers() -> Iterator[str]:
    """What every arm of the known answers reached, each seed."""
    record = json.loads(RESULT.read_text(encoding="utf-8"))
    for answer, title in TITLES.items():
        rows = [row for row in record["results"] if row["answer"] == answer]
        lengths = list(dict.fromkeys(level["length"] for row in rows for level in row["levels"]))
        shared = all(len(row["levels"]) == len(lengths) for row in rows)
        heads = [f"length {length}" for length in lengths] if shared else ["accuracy"]
        updates = " or ".join(dict.fromkeys(f"{row['updates']:,}" for row in rows))
        yield f"{title[0].upper()}{title[1:]}, {updates} updates.\n"
        yield f"| arm | chance | {' | '.join(heads)} |\n|---|---|{'---|' * len(heads)}"
        for arm in dict.fromkeys(row["arm"] for row in rows):
            seeds = sorted((row for row in rows if row["arm"] == arm), key=lambda row: row["seed"])
            reached = [[f"{level['accuracy']:.3f}" for level in row["levels"]] for row in seeds]
            columns = [", ".join(figures) for figures in zip(*reached, strict=True)]
            yield f"| {arm} | {seeds[0]['levels'][0]['chance']:.3f} | {' | '.join(columns)} |"
        yield ""


TABLES = {each.__name__: each for each in (tasks, answers)}


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
