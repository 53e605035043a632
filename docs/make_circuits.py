"""Writes the tables of circuits in docs/circuits.md from their committed results.

python docs/make_circuits.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("circuits.md")
RESULT = Path(__file__).parents[1] / "benchmarks" / "results" / "circuits.json"
SCORED = RESULT.with_name("edge_scores.json")
FRESH = 4
"""The first seed that was trained after criteria and threshold were fixed."""


def page() -> str:
    """The page with its tables as of the result."""
    text = PAGE.read_text(encoding="utf-8")
    for name, lines in TABLES.items():
        table = re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- end of {name} -->)", re.S)
        assert table.search(text), f"the page has no place for {name}"
        made = "\n".join([*lines(rows_of(name)), "", told(rows_of(name))]) + "\n"
        text = table.sub(lambda _, made=made: made, text)
    compared = re.compile(r"(?<=<!-- edge scores -->\n).*?(?=<!-- end of edge scores -->)", re.S)
    made = "\n".join(edge_scores(json.loads(SCORED.read_text(encoding="utf-8"))["results"])) + "\n"
    return compared.sub(lambda _: made, text)


def edge_scores(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Every model: what is kept by as many edges of every way, and the seconds."""
    ways = {"search": "search", "gradient": "EAP", "integrated": "EAP-IG", "cut": "a call each"}
    yield f"| task, seed | edges | {' | '.join(f'{said}: kept, seconds' for said in ways.values())} |"
    yield "|---|---|---|---|---|---|"
    for row in rows:
        told = " | ".join(f"{row['ways'][way]['faithfulness']:.2f}, {row['ways'][way]['seconds']:.1f}" for way in ways)
        yield f"| {row['name']}, {row['seed']} | {row['edges']} of {row['considered']} | {told} |"


def rows_of(name: str) -> list[dict[str, Any]]:
    """The models of a circuit, by seed."""
    return [row for row in json.loads(RESULT.read_text(encoding="utf-8"))["results"] if row["name"] == name]


def told(rows: list[dict[str, Any]]) -> str:
    """With how many of the seeds that the criteria are older than all of these hold."""
    fresh = [row for row in rows if row["seed"] >= FRESH]
    return f"Every criterion holds with {sum(row['found'] for row in fresh)} of {len(fresh)} fresh seeds."


def induction(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Every model: its heads, what is lost without them, and the edges that stay."""
    yield "| seed | accuracy | looks at the token before | look at what followed | nats lost without either | edges that stay | faithful | found |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in rows:
        nats = ", ".join(f"{each:.1f}" for each in row["nats without"].values())
        yield (
            f"| {row['seed']} | {row['accuracy']:.3f} | {short(row['previous_token_head'])}: {row['previous']:.2f} | "
            f"{row['induction_heads']} heads, at most {row['induction']:.2f} | {nats} | {edges(row)} | {verdict(row)} |"
        )


def indirect_object(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Every model: what its heads of either role do."""
    yield "| seed | accuracy | name movers | look at IO, S1, S2 | share of IO, S | contrastive heads | look at S2 | share of IO, S | lost without either | edges that stay | faithful | found |"
    yield "|---|---|---|---|---|---|---|---|---|---|---|---|"
    for row in rows:
        movers, others = ([head for head in row["heads"] if head["role"] == role] for role in ("name mover", "contrastive"))
        looks = ", ".join(f"{mean(movers, f'to {name}'):.2f}" for name in ("IO", "S1", "S2"))
        lost = ", ".join(f"{each:.2f}" for each in row["lost without"].values())
        yield (
            f"| {row['seed']} | {row['accuracy']:.3f} | {len(movers)} | {looks} | {shares(movers)} | {len(others)} | "
            f"{mean(others, 'to S2'):.2f} | {shares(others)} | {lost} | {edges(row)} | {verdict(row)} |"
        )


def edges(row: dict[str, Any]) -> str:
    """How many edges the circuit has."""
    return f"{len(row['circuit']['edges'])} of {row['circuit']['considered']}"


def verdict(row: dict[str, Any]) -> str:
    """What the circuit keeps, and whether every criterion holds; which one does not."""
    failed = [words for words, holds in row["criteria"].items() if not holds]
    return f"{row['faithfulness']:.2f} | {'no: not ' + ', '.join(failed) if failed else 'yes'}"


def shares(heads: list[dict[str, Any]]) -> str:
    """What heads add together to the logits of IO and of S."""
    return ", ".join(f"{sum(head[f'share of {name}'] for head in heads):+.1f}" for name in ("IO", "S"))


def mean(heads: list[dict[str, Any]], key: str) -> float:
    """The mean over heads."""
    return sum(head[key] for head in heads) / max(1, len(heads))


def short(head: str) -> str:
    """`decoder.layer[0].attention 3` as `layer 0, head 3`."""
    layer, number = re.findall(r"\d+", head)
    return f"layer {layer}, head {number}"


TABLES = {"induction": induction, "indirect object": indirect_object}

if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
