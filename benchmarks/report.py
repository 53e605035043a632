"""Writes the figures of `docs/reference/performance.md` and of the README from the committed results.

`python -m benchmarks.report`; a test compares.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.contenders import ENGINE
from benchmarks.sitting import OURS

RESULTS = Path(__file__).parent / "results"
ROOT = Path(__file__).parents[1]
FIGURES = re.compile(r"(?<=<!-- figures -->\n).*?(?=<!-- end of figures -->)", re.S)

SITTINGS = {
    "training": "Training, bf16",
    "decoding": "Decoding, bf16",
    "decoding-amx": "Decoding, bf16, on a processor with AMX",
}
"""The title of each sitting of `benchmarks.compare`, by its result file."""
WAITING = {"waiting": "From the shell", "waiting-amx": "From the shell, on a processor with AMX"}
"""The same of `benchmarks.waiting`."""


def table(what: str) -> str:
    """One sitting as Markdown, fastest first. The last column divides our speed by theirs."""
    record = json.loads((RESULTS / f"{what}.json").read_text())
    rows = sorted(record["results"], key=lambda row: -row["tokens_per_second"])
    lines = [f"### {SITTINGS[what]}\n", f"| | tokens/s | speed of {record['base']} / its speed |", "|---|---|---|"]
    lines += [f"| {row['name']} | {row['tokens_per_second']:,.0f} | {row['ours_is_faster_by']:.2f} |" for row in rows]
    machine = record["machine"]
    return "\n".join([*lines, "", f"{record['date']}, {machine['cpu']}, {machine['cores']} cores.", ""])


GRIDS = {
    "decoding-grid": "Decoding: models, batches, contexts and weights",
    "decoding-grid-avx2": "The same with AVX-512 hidden, and llama.cpp built for AVX2",
}
"""Results of many cases in one file, with their titles."""


def further() -> list[str]:
    """Names of further sittings that are measured; those against another revision are no comparison with peers."""
    found = (path.stem for what in ("training", "decoding") for path in RESULTS.glob(f"{what}-*.json"))
    return sorted(name for name in found if name not in (*GRIDS, "decoding-engines", *SITTINGS) and "-against-" not in name)


def record_of(name: str) -> dict[str, Any] | None:
    """A result, or None where it is not measured yet."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def more() -> list[str]:
    """A table of further sittings, one row each: ours, the best peer, memory, and the share of the products' own rate."""
    floors = (record_of("floors") or {}).get("steps", {})
    rows = []
    for name in further():
        record = record_of(name) or {}
        base = next(row for row in record["results"] if row["name"] == record["base"])
        peers = [row for row in record["results"] if not row["name"].startswith(OURS)]
        if not peers:
            continue
        best = min(peers, key=lambda row: row["ours_is_faster_by"])
        number = "fp32" if "fp32" in name else "bf16"
        floor = record.get("products") or floors.get(record.get("shape", {}).get("name"), {}).get(number)
        share = f"{base['tokens_per_second'] / floor['tokens_per_second']:.0%}" if floor and name.startswith("training") else ""
        rows.append(
            f"| {name} | {base['tokens_per_second']:,.0f} | {best['name']} | {best['tokens_per_second']:,.0f} | "
            f"{best['ours_is_faster_by']:.2f} | {share} | {_grown(base)} | {_grown(best)} | "
            f"{base.get('first_unit_seconds', '')} |"
        )
    if not rows:
        return []
    head = (
        "### Further sittings\n\n| | tokens/s | best peer | its tokens/s | ours / its | share of the products' rate | memory | "
        "its memory | first step, s |\n|---|---|---|---|---|---|---|---|---|"
    )
    return [
        "\n".join(
            [head, *rows, "", "Memory: the largest resident size during steps, less that before the model was built.", ""]
        )
    ]


def _grown(row: Mapping[str, Any]) -> str:
    """MB by which a process grew."""
    if "peak_bytes" not in row:
        return ""
    return f"{(row['peak_bytes'] - row['bytes_before']) / 1e6:,.0f} MB"


def grids() -> list[str]:
    """Every grid of decoding that is measured."""
    return [text for name in GRIDS for text in grid(name)]


def grid(name: str) -> list[str]:
    """A grid of decoding, one row for each case."""
    record = record_of(name)
    if record is None:
        return []
    lines = [
        f"### {GRIDS[name]}\n",
        "| | tokens/s | first token, s | share of reading | transformers | ours / its | llama.cpp | ours / its |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for said, case in record["cases"].items():
        rows = {row["name"].split()[0]: row for row in case["results"]}
        cells = []
        for peer in ("transformers", "llama.cpp"):
            row = rows.get(peer)
            cells += [f"{row['tokens_per_second']:,.0f}", f"{row['ours_is_faster_by']:.2f}"] if row else ["", ""]
        ours = rows[OURS]
        first = f"{ours['first_token_seconds']:.2f}"
        share = f"{case['share_of_reading']:.0%}"
        lines.append(f"| {said} | {ours['tokens_per_second']:,.0f} | {first} | {share} | {' | '.join(cells)} |")
    measured = {
        f"{case['date']}, {case['machine']['cpu']}, {case['machine']['cores']} cores" for case in record["cases"].values()
    }
    share = "Share of reading: of the rate at which reading the weights and the state alone would give tokens."
    return ["\n".join([*lines, "", share, *sorted(f"{each}." for each in measured), ""])]


def engines() -> list[str]:
    """The grid of decoding on another engine, one row for each case that it was measured in."""
    record = record_of("decoding-engines")
    if record is None:
        return []
    lines = [
        "### Decoding on another engine\n",
        "| | own, tokens/s | first token, s | on llama.cpp | first token, s | llama.cpp itself | first token, s | ours / its |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, case in record["cases"].items():
        rows = {row["name"]: row for row in case["results"]}
        if (ours := rows.get(ENGINE)) is None or (its := rows.get("llama.cpp")) is None:
            continue
        ratio = its["ours_is_faster_by"] / ours["ours_is_faster_by"]
        cells = [
            f"{row[fact]:{form}}"
            for row in (rows[record["base"]], ours, its)
            for fact, form in (("tokens_per_second", ",.0f"), ("first_token_seconds", ".2f"))
        ]
        lines.append(f"| {name} | {' | '.join(cells)} | {ratio:.2f} |")
    measured = {
        f"{case['date']}, {case['machine']['cpu']}, {case['machine']['cores']} cores" for case in record["cases"].values()
    }
    return ["\n".join([*lines, "", *sorted(f"{each}." for each in measured), ""])]


def waiting() -> list[str]:
    """From pressing return to the first token, on each machine."""
    found = ((title, record_of(name)) for name, title in WAITING.items())
    return [_waited(title, record) for title, record in found if record is not None]


def _waited(title: str, record: Mapping[str, Any]) -> str:
    """One sitting from the shell."""
    lines = [f"### {title}\n", "| | first token, s | then tokens/s | all, s |", "|---|---|---|---|"]
    lines += [
        f"| {name} | {row['first_token_seconds']:.2f} | {row['tokens_per_second']:,.0f} | {row['seconds_in_all']:.2f} |"
        for name, row in record["from_the_shell"].items()
    ]
    loaded = "; ".join(f"{name} {row['later_calls_seconds']:.3f} s" for name, row in record["loaded"].items())
    machine = record["machine"]
    said = f"{record['new_tokens']} tokens of a 110 M parameter Llama in {record['weights']}. "
    said += f"First token of a loaded model: {loaded}."
    return "\n".join([*lines, "", said, f"{record['date']}, {machine['cpu']}, {machine['cores']} cores.", ""])


def parts() -> str:
    """What single parts cost, in words."""
    record = json.loads((RESULTS / "parts.json").read_text())
    faster = {name: row["ours_is_faster_by"] for name, row in record["comparisons"].items()}
    latent = faster["latent decoding"]["transformers DeepseekV3Attention"]
    machine = record["machine"]
    dense = record["experts_over_dense"]["times_the_dense"]
    linear, softmax = (record["lengths"]["grows_as_T_to_the"][f"{kind} attention"] for kind in ("linear", "softmax"))
    return f"""\
### Parts

Parts against their plain forms and public implementations, in fp32: [all ratios](../../benchmarks/results/parts.png).
Eight experts of which two are active cost {dense:.2f} times the dense network of equal active width. A token of latent
attention decodes {latent:.1f} times faster than in transformers, which expands the latent. The time of linear attention grows
as T^{linear:.2f} up to 32,768 positions, that of softmax attention as T^{softmax:.2f}.

{record["date"]}, {machine["cpu"]}, {machine["cores"]} cores.

{chosen_keys(record["chosen_keys"], record["chosen_blocks"])}
{recurrent(record["scans"])}"""


def chosen_keys(keys: Any, blocks: Any) -> str:
    """From which length on attention to chosen keys, or blocks of keys, is faster than to all."""
    lines = ["| | positions | of chosen keys | of chosen blocks |", "|---|---|---|---|"]
    for how, said in (("forward", "all positions at once"), ("decoding", "one more token")):
        pairs = zip(keys[how].items(), blocks[how].values(), strict=True)
        lines += [f"| {said} | {int(length):,} | {one:.2f} | {other:.2f} |" for (length, one), other in pairs]
    table = "\n".join(lines)
    return f"""\
### Keys chosen per query

Latent attention whose indexer chooses the keys of a query ({keys["shape"]}), and grouped-query attention whose indexer
chooses blocks of keys ({blocks["shape"]}), beside the same attention over all keys: the time over all keys, divided by
that over the chosen ones; above 1 the choice is faster. By `python -m benchmarks.parts --renew "chosen"`; the outputs are first
held against the mask of the same choice.

{table}

Keys {keys["date"]}, {keys["machine"]["cpu"]}, {keys["machine"]["cores"]} cores; blocks {blocks["date"]},
{blocks["machine"]["cpu"]}, {blocks["machine"]["cores"]} cores.
"""


def recurrent(scans: Any) -> str:
    """Chunked recurrences beside the public ones in plain torch."""
    lines = ["| mixer | against | its time / ours |", "|---|---|---|"]
    for mixer, row in scans["mixers"].items():
        lines += [f"| {mixer} | {peer} | {ratio:.2f} |" for peer, ratio in row["ours_is_faster_by"].items()]
    table = "\n".join(lines)
    return f"""\
### Recurrences in chunks

Whole mixers of equal weights beside transformers' modules in plain torch ({scans["shape"]}). Those
of Mamba-2 and mLSTM work in chunks too, the others token by token. Outputs and gradients are compared first.
Delta rules, Lightning and linear attention are among [all ratios](../../benchmarks/results/parts.png). By
`python -m benchmarks.parts --renew scans`.

{table}

{scans["date"]}, {scans["machine"]["cpu"]}, {scans["machine"]["cores"]} cores.
"""


def costs() -> str:
    """How long pricing takes, in words."""
    record = json.loads((RESULTS / "costs.json").read_text())
    inside, torch, solver = (
        record[what] for what in ("milliseconds in process", "seconds of import torch", "seconds of 1,000 evaluations")
    )
    first, second = (record[f"seconds beyond import torch, the {time} time"] for time in ("first", "second"))
    sheet, page = inside["parameters, FLOPs, state"], inside["the page of three modes"]
    (slow, longest), machine = sheet["slowest"], record["machine"]
    return f"""\
### Pricing

Pricing one of {sheet["entries"]} architectures: parameters, FLOPs and decode state take {sheet["median"]:.1f} ms at the median
and {longest:.0f} ms for {slow}; the whole page of `anyformer cost` {page["median"]:.0f} ms and {page["slowest"][1]:.0f} ms.
From the shell the page takes, beyond the {torch:.1f} s of importing torch, {first["median"]:.1f} s the first time
(at most {first["slowest"][1]:.1f} s) and {second["median"]:.1f} s from then on (at most {second["slowest"][1]:.1f} s).
A thousand sizes of {" or ".join(solver)} are priced in {max(solver.values()):.1f} s at most.

{record["date"]}, {machine["cpu"]}, {machine["cores"]} cores.
"""


SHOWN = {
    "training": "training 13.8 M parameters, bf16",
    "training-nanogpt": "nanoGPT's shape",
}
"""The sittings that the README shows."""
SHOWN_CASES = {
    "dense, bf16, batch 1, context 64": "decoding 110 M, bf16",
    "dense, int8, batch 1, context 64": "in 8 bits",
    "dense, int4-64, batch 1, context 64": "in 4 bits, tables too",
    "dense, bf16, batch 16, context 64": "16 texts at once, bf16",
}
"""The cases of the grid that it shows."""


def short() -> str:
    """The README's table: our tokens/s, and our speed over that of peers."""
    lines = ["", "| on two cores | tokens/s | our speed / theirs |", "|---|---|---|"]
    for name, said in SHOWN.items():
        record = record_of(name) or {}
        base = next(row for row in record["results"] if row["name"] == record["base"])
        lines.append(f"| {said} | {base['tokens_per_second']:,.0f} | {_against(record['results'])} |")
    cases = (record_of("decoding-grid") or {}).get("cases", {})
    for name, said in SHOWN_CASES.items():
        if name in cases:
            rows = cases[name]["results"]
            ours = next(row for row in rows if row["name"].startswith(OURS))
            lines.append(f"| {said} | {ours['tokens_per_second']:,.0f} | {_against(rows)} |")
    return "\n".join([*lines, "", ""])


def _against(rows: list[dict[str, Any]]) -> str:
    """Each peer's fastest contender, with the ratio."""
    best: dict[str, float] = {}
    for row in rows:
        if not row["name"].startswith(OURS):
            peer = row["name"].split()[0]
            best[peer] = min(best.get(peer, float("inf")), row["ours_is_faster_by"])
    return ", ".join(f"{peer} {ratio:.2f}" for peer, ratio in best.items())


def report() -> str:
    """All figures."""
    return "\n".join([*map(table, SITTINGS), *more(), *grids(), *engines(), *waiting(), parts(), costs()])


def pages() -> dict[Path, str]:
    """The pages with their figures as of the committed results."""
    return {path: FIGURES.sub(made().replace("\\", r"\\"), path.read_text(encoding="utf-8")) for path, made in PAGES.items()}


PAGES = {ROOT / "docs" / "reference" / "performance.md": report, ROOT / "README.md": short}


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
