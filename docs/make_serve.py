"""Fills in the tables of `docs/reference/protocol.md` from the bodies that the server reads, and those of `docs/serve.md` from
benchmarks/results/serving*.json.

python docs/make_serve.py
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from page_text import filled, prose, table, write

from anyformer.describe import Value
from anyformer.describe.docstrings import field_docstrings
from anyformer.serving.bodies import INERT, REFUSED, ChatBody, ChoiceBody, CompletionBody

DOCS = Path(__file__).parent
PAGE, GUIDE = DOCS / "reference" / "protocol.md", DOCS / "serve.md"
RESULTS = DOCS.parent / "benchmarks" / "results"
SPEEDS = "server", "one client, tokens/s", "eight clients, tokens/s", "first token at half load", "between tokens then"


def fields(kind: type[Value], without: type[Value] = Value) -> Iterator[tuple[str, str]]:
    """The fields of a body and what they do, but for those of another."""
    said = field_docstrings(kind)
    return ((f"`{name}`", " ".join(said[name].split())) for name in kind.model_fields if name not in without.model_fields)


def others() -> Iterator[tuple[str, str]]:
    """What is not honoured, by what to do instead."""
    for remedy in dict.fromkeys(remedy for _, remedy in REFUSED.values()):
        names = ", ".join(f"`{name}`" for name, (_, its) in REFUSED.items() if its == remedy)
        yield names, remedy


def result(name: str) -> dict[str, Any]:
    """What a command of `benchmarks.serving` wrote."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def speeds(name: str) -> Iterator[tuple[str, ...]]:
    """A row for every server of a sitting."""
    for row in result(name)["servers"]:
        half = row["half"]
        rates = (f"{row[way]['tokens_per_second']:.1f}" for way in ("one", "full"))
        yield row["name"], *rates, f"{half['first_token_seconds']:.2f} s", f"{half['between_tokens_seconds'] * 1000:.0f} ms"


def foretold() -> str:
    """What the cost sheet says beside it."""
    told, load = result("serving")["foretold"], result("serving")["load"]
    one, full = told["one"], told["full"]
    return prose(
        f"Foretold by the cost sheet for this machine: {one['tokens_per_second']:.1f} tokens/s of one client and "
        f"{full['tokens_per_second']:.1f} of {load['texts']}, the first token of a lone client after "
        f"{one['first_token_seconds']:.2f} s."
    )


def ratios() -> str:
    """How many times the others' rate ours is, in the same rounds."""
    said = (
        f"{row['one']['ours_is_faster_by']:.2f} and {row['full']['ours_is_faster_by']:.2f} times {row['name']}'s"
        for row in result("serving")["servers"][1:]
    )
    return prose(f"In the same rounds the rate, of one client and of eight, was {'; '.join(said)}.")


def engine_ratios() -> str:
    """How many times the others' rate ours with another engine is, in the same rounds."""
    _, ours, *others = result("serving-engines")["servers"]

    def ratio(other: dict[str, Any], way: str) -> float:
        pairs = zip(ours["rounds"], other["rounds"], strict=True)
        return median(mine[way]["tokens_per_second"] / its[way]["tokens_per_second"] for mine, its in pairs)

    said = (f"{ratio(other, 'one'):.2f} and {ratio(other, 'full'):.2f} times {other['name']}'s" for other in others)
    return prose(f"In the same rounds the rate of `{ours['name']}`, of one client and of eight, was {'; '.join(said)}.")


def endured(told: dict[str, Any]) -> tuple[str, str]:
    """A thousand streams."""
    return (
        f"{told['clients']:,} open streams for {told['seconds']:.0f} s",
        f"{told['texts']:,} texts, {told['lost']} lost; memory {told['resident_over_foretold']:.2f} times what was foretold, "
        f"with {told['stream_bytes_beside_state'] / 1e3:.0f} kB a stream beside its state",
    )


def ordered(told: dict[str, Any]) -> tuple[str, str]:
    """Random schedules."""
    passed = [each for each in told["cases"].values() if each["passed"]]
    return (
        "random orders of coming, ending and going away",
        f"{told['schedules']:,} in {len(passed)} pairs of a kind of state and a way to hold it: every token as `generate`'s",
    )


def fuzzed(told: dict[str, Any]) -> tuple[str, str]:
    """Requests that may be anything."""
    return (
        "requests that may be anything",
        f"{told['raw']['requests']:,} on raw sockets, {told['schema']['requests']:,} by schemathesis: no 500, no traceback",
    )


def borne(told: dict[str, Any]) -> tuple[str, str]:
    """Faults."""
    term = told["SIGTERM"]
    return (
        "killed clients, silent ones, a full disk, SIGTERM",
        f"room free after {told['killed clients']['seconds_until_free']:.1f} s; {term['whole']} of {term['clients']} texts "
        "whole",
    )


def scored(told: dict[str, Any]) -> tuple[str, str]:
    """lm-evaluation-harness."""
    beside = told["local-completions beside hf"], told["local-chat-completions beside hf"]
    return (
        "lm-evaluation-harness, completions and chats, beside its own run in fp32",
        f"largest relative difference of a figure {max(each['largest_difference'] for each in beside):.0e}; "
        f"{sum(each['equal_texts'] for each in beside)} of {sum(each['texts'] for each in beside)} texts equal",
    )


PROOFS = {
    "serving-endurance": endured, "serving-schedules": ordered, "serving-fuzz": fuzzed, "serving-faults": borne,
    "serving-harness": scored,
}  # fmt: skip


def pages() -> dict[Path, str]:
    """The pages as of today."""
    tables = {
        "both": table(("field of both", ""), fields(ChoiceBody)),
        "completions": table(("of completions alone", ""), fields(CompletionBody, ChoiceBody)),
        "chats": table(("of chats alone", ""), fields(ChatBody, ChoiceBody)),
        "others": table(("not honoured", "instead"), others()),
        "inert": prose(", ".join(f"`{name}`" for name in INERT)),
        "speeds": table(SPEEDS, speeds("serving")),
        "ratios": ratios(),
        "engines": table(SPEEDS, speeds("serving-engines")),
        "engine ratios": engine_ratios(),
        "foretold": foretold(),
        "proofs": table(
            ("tried", "found"), (told(result(name)) for name, told in PROOFS.items() if (RESULTS / f"{name}.json").exists())
        ),
    }
    return filled((PAGE, GUIDE), tables)


if __name__ == "__main__":
    write(pages())
