"""Fills in what is measured of several processes, and the values of clusters: `python docs/make_cluster.py`."""

from __future__ import annotations

import json
from pathlib import Path

from page_text import filled, write

from anyformer.describe.docstrings import field_docstrings
from anyformer.launching import NAMES, Cluster

ROOT = Path(__file__).parents[1]
MEASURED = Path(__file__).parent / "reference" / "processes.md"
CLUSTERS = Path(__file__).parent / "reference" / "clusters.md"
RESULTS = ROOT / "benchmarks" / "results"
SHOWN = "mixtral-8x7b"
"""The architecture whose bytes are shown."""


def equality(other: bool) -> str:
    """The largest differences of each mode and number of processes: of runs in fp32 that learn every weight, or of others."""
    record = json.loads((RESULTS / "equality.json").read_text(encoding="utf-8"))
    groups: dict[tuple[str, ...], list[dict[str, object]]] = {}
    for each in record["results"]:
        _, mode, _, *form = each["case"].split(":")
        if bool(form) == other:
            groups.setdefault((*form, mode, str(each["ranks"])), []).append(each)
    lines = [f"| {'form | ' * other}mode | processes | cases | loss | gradient | weight |", "|---" * (6 + other) + "|"]
    for key, rows in sorted(groups.items()):
        largest = (max(float(str(row[name])) for row in rows) for name in ("loss", "gradient", "weight"))
        lines.append(f"| {' | '.join(key)} | {len(rows)} | {' | '.join(f'{value:.0e}' for value in largest)} |")
    said = "The largest relative difference from one process, of whole tensors"
    return "\n".join([f"{said} ({record['date']}, torch {record['versions']['torch']}):", "", *lines, ""])


def exchanges() -> str:
    """The bytes of one architecture in each mode, and how many cases are equal."""
    record = json.loads((RESULTS / "exchanges.json").read_text(encoding="utf-8"))
    rows = record["results"]
    equal = sum(row["counted"] == row["foretold"] and row["held"] == row["held_foretold"] for row in rows)
    lines = ["| mode | processes | KB that collectives carry | KB of weights in a process |", "|---|---|---|---|"]
    for row in sorted(rows, key=lambda each: (each["case"].split(":")[1], each["ranks"])):
        name, mode, _, *form = row["case"].split(":")
        if name == SHOWN and not form:
            sizes = ", ".join(f"{key} {size / 1000:,.0f}" for key, size in row["counted"].items())
            lines.append(f"| {mode} | {row['ranks']} | {sizes} | {row['held'] / 1000:,.0f} |")
    said = f"{equal} of {len(rows)} cases are equal to the byte ({record['date']}, torch {record['versions']['torch']})."
    shown = f"The tiny {SHOWN}, a forward and backward pass of all processes together, by operation and dimension of the mesh:"
    return "\n".join([f"{said} {shown}", "", *lines, ""])


def process_memory() -> str:
    """What the largest process of each mesh holds beyond that of a tiny model, foretold and measured."""
    record = json.loads((RESULTS / "rank_memory.json").read_text(encoding="utf-8"))
    lines = ["| model | mesh | foretold, MB | measured, MB | ratio |", "|---|---|---|---|---|"]
    for row in record["rows"]:
        mesh, sizes = " x ".join(f"{name} {size}" for name, size in row["mesh"].items()), (row["foretold"], row["measured"])
        lines.append(f"| {row['model']} | {mesh} | {' | '.join(f'{size / 1e6:,.0f}' for size in sizes)} | {row['ratio']:.2f} |")
    tiny = [row["tiny"] / 1e6 for row in record["rows"]]
    said = f"torch {record['torch']}; a process of the tiny model grows by {min(tiny):.0f} to {max(tiny):.0f} MB."
    return "\n".join([said, "", *lines, ""])


def deep_ranks() -> str:
    """What eight processes that train a deep model hold."""
    record = json.loads((RESULTS / "deep_ranks.json").read_text(encoding="utf-8"))
    resident, grown = (max(each[name] for each in record["processes"]) / 1e9 for name in ("resident", "grown"))
    return (
        f"{len(record['processes'])} processes train {record['parameters'] / 1e9:.1f} B parameters in fp32 with AdamW, 84 layers of width "
        f"768: the largest is {resident:.2f} GB,\nof which it grew by {grown:.2f}; {record['foretold'] / 1e9:.2f} were foretold, without "
        f"what a tiny model as deep takes. With 4 such layers the weights are those of\none process to "
        f"{record['difference']['largest']:.0e} (`python -m benchmarks.deep_ranks`, torch {record['torch']}).\n"
    )


def dispatching() -> str:
    """The bytes of both ways of experts, by number of processes."""
    record = json.loads((RESULTS / "dispatching.json").read_text(encoding="utf-8"))
    sizes = {(row["ranks"], row["way"]): row["bytes"] for row in record["results"]}
    lines = ["| processes | all-gather, KB | all-to-all, KB | ratio |", "|---|---|---|---|"]
    for ranks in sorted({ranks for ranks, _ in sizes}):
        gathered, sent = sizes[ranks, "all-gather"], sizes[ranks, "all-to-all"]
        lines.append(f"| {ranks} | {gathered / 1000:,.0f} | {sent / 1000:,.0f} | {gathered / sent:.2f} |")
    error = max(row["error"] for row in record["results"])
    said = (
        f"{record['tokens']} tokens of {record['width']} features per process, {record['chosen']} of {record['experts']} "
        f"experts per token; forward and backward, all processes together; outputs and gradients are those of one process to {error:.0e} "
        f"({record['date']}, torch {record['versions']['torch']}):"
    )
    return "\n".join([said, "", *lines, ""])


def default_run() -> str:
    """How far the README's run in four processes is from one."""
    record = json.loads((RESULTS / "default_run.json").read_text(encoding="utf-8"))
    lines = ["| against one process with four pieces | after 10 | 20 | 30 | 50 updates |", "|---|---|---|---|---|"]
    for name, gaps in record["apart"].items():
        lines.append(f"| {name} | {' | '.join(f'{gaps[step - 1]:.0e}' for step in (10, 20, 30, 50))} |")
    return "\n".join([f"({record['date']}, torch {record['versions']['torch']})", "", *lines, ""])


def clusters() -> str:
    """What may be set of a cluster: what all have first."""
    rows = dict.fromkeys(
        (key, "all" if key in Cluster.model_fields else name, _shown(field.default), meaning)
        for name, kind in NAMES.items()
        for key, field in kind.model_fields.items()
        if key != "kind"
        for meaning in (" ".join(field_docstrings(kind)[key].split()),)
    )
    lines = ["| name | of | by default | what it is |", "|---|---|---|---|"]
    ordered = sorted(rows, key=lambda row: row[1] != "all")
    return "\n".join([*lines, *(f"| `{key}` | {of} | {default} | {meaning} |" for key, of, default, meaning in ordered), ""])


def _shown(default: object) -> str:
    return "none" if default in (None, ()) else f"`{default}`"


def pages() -> dict[Path, str]:
    """Both pages with their tables."""
    made = {
        "equality": equality(other=False),
        "equality of other forms": equality(other=True),
        "exchanges": exchanges(),
        "deep model": deep_ranks(),
        "dispatching": dispatching(),
        "process memory": process_memory(),
        "default run": default_run(),
        "clusters": clusters(),
    }
    return filled((MEASURED, CLUSTERS), made)


if __name__ == "__main__":
    write(pages())
