"""A description and the call that is priced in the forms in which they are copied: commands, TOML, Python and JSON."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from typing import Any

from anyformer.costs.sheet import CostSheet
from anyformer.describe import get, parse_assignment, to_json, to_toml
from anyformer.describe.amounts import typed
from anyformer.describe.value import as_data
from anyformer.exploring.question import RATE, PricedCall, SheetQuestion

_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")
FILE = "mine.toml"
"""The file as which a copied description is kept."""
BUILT = 'model = af.build(arch, device="meta")  # without values: device="cpu" takes the memory of all weights'


def forms(question: SheetQuestion, sheet: CostSheet) -> dict[str, str]:
    """The architecture and the call of a question, priced as `sheet`, in every form: each gives the same figures again."""
    of, changes, made = question.of, question.changes, sheet.architecture
    sets = [word for change in changes for word in ("--set", change)]
    page = ["anyformer", "explore", of, *sets, *_page_options(question.call), "--json"]
    kept = ["anyformer", "explore", FILE, *_page_options(question.call), "--json"]
    return {
        "set": shlex.join(page),
        "cost": "\n".join(shlex.join(["anyformer", "cost", of, *sets, *more]) for more in _cost_options(question.call)),
        "toml": f"# These figures, of this text in the file {FILE}: {shlex.join(kept)}\n{to_toml(made)}",
        "python": _python(question, sheet),
        "json": to_json(made),
    }


def _lengths(call: PricedCall) -> list[str]:
    """The options of a length, a batch and a source that are not as usual."""
    given = {"--length": call.length, "--batch": call.batch if call.batch > 1 else None, "--source-length": call.source}
    return [word for option, number in given.items() if number is not None for word in (option, str(number))]


def _page_options(call: PricedCall) -> list[str]:
    """What `anyformer explore` is told of a call that is not as usual."""
    usual = PricedCall()
    words = {"--precision": call.precision, "--checkpointing": call.checkpointing}
    as_usual = {"--precision": usual.precision, "--checkpointing": usual.checkpointing}
    said = [word for option, given in words.items() if given != as_usual[option] for word in (option, given)]
    on = [] if call.on == usual.on else [word for name in call.on or ("none",) for word in ("--hardware", name)]
    return [*_lengths(call), *said, *on, *([] if call.rate == RATE else ["--rate", f"{call.rate:g}"])]


def _cost_options(call: PricedCall) -> Iterator[list[str]]:
    """What `anyformer cost` is told of a call, once for every accelerator."""
    plan = ["--precision", call.precision, "--checkpointing", call.checkpointing]
    for name in call.on or ("h100",):
        yield [*_lengths(call), *plan, "--hardware", name]


def _python(question: SheetQuestion, sheet: CostSheet) -> str:
    """A program that makes the architecture, prices the call on every accelerator, and builds the model."""
    of, call, made = question.of, question.call, sheet.architecture
    given = dict(map(parse_assignment, question.changes))
    values = {path: as_data(get(made, path)) if typed(value) else value for path, value in given.items()}
    said = "" if not values else f", changes={values!r}"
    source = f", source_length={sheet.source}" if sheet.source else ""
    plan = f'af.Plan.parse({{"precision": "{call.precision}", "checkpointing": "{call.checkpointing}"}})'
    lines = ["import anyformer as af", "", f"arch = af.architecture({of!r}{said})", f"plan = {plan}"]
    asked = f"af.cost(arch, batch={sheet.batch}, length={sheet.length}{source}, plan=plan"
    if not call.on:
        lines += [f"sheet = {asked})", "print(sheet)"]
    else:
        lines += [
            f"sheets = [{asked}, hardware=name) for name in {list(call.on)!r}]",
            "for sheet in sheets:",
            "    print(sheet)",
            "    for mode in sheet.modes:",
            "        time = sheet.of(mode).time",
            f"        dollars = {call.rate:g} * time.seconds / 3600",
            "        print(mode, time.seconds, 's,', 1e6 * dollars / time.tokens, 'dollars per million tokens')",
        ]
    return "\n".join([*lines, BUILT, ""])


def inline(data: Any) -> str:
    """A value as `--set` takes it: TOML in one line, `none` of one that is absent."""
    if data is None:
        return "none"
    if isinstance(data, dict):
        pairs = (f"{key if _BARE.match(key) else json.dumps(key)} = {inline(item)}" for key, item in data.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(data, list | tuple):
        return f"[{', '.join(map(inline, data))}]"
    return json.dumps(data, ensure_ascii=False)
