"""Fills in a table of docs/huggingface.md from benchmarks/results/as_authors.json: `python docs/make_as_authors.py`.

What stands between `<!-- as_authors -->` and `<!-- end of as_authors -->` is written here; a test holds the page to its result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from page_text import prose

ROOT = Path(__file__).parents[1]
PAGE = Path(__file__).with_name("huggingface.md")
RESULT = ROOT / "benchmarks" / "results" / "as_authors.json"
APART = (
    "What differs by design is left out there: dropout and the noise of routers, which both sides draw differently; the "
    "harness's prediction of the first token, which its tokenizer adds, from itself (`add_bos_token=False`); TRL's loss that "
    "balances experts (`router_aux_loss_coef=0`), which transformers' own trainer leaves out, too; and the first token of a "
    "row, which nothing predicts, in the mean of the losses of GPT-2."
)
"""What the tools are asked to leave out."""
BEGIN, END = "<!-- as_authors -->\n", "<!-- end of as_authors -->"
WORDS = {
    "greedy": "text, always the likeliest token; four prompts, padded",
    "beams": "text, four beams, length penalty 1.4, three answers per prompt",
    "penalties": "text, repetition penalty 1.3, no 3-gram twice, at least six tokens",
    "documents": "log-likelihood of single documents",
    "choices": "log-likelihood of choices",
    "messages": "chats as TRL's `SFTTrainer` reads them (answers learnt): tokens, labels, losses of three updates",
    "completions": "prompts and completions, the same",
    "text": "texts, the same",
    "preferences": "preferences as TRL's `DPOTrainer` reads them, the same",
    "pairs": "sources and targets, the same, in transformers",
    "hidden words": 'likeliest five tokens at hidden places, in `pipeline("fill-mask")`',
    "hidden": "rows with hidden tokens: losses of three updates, in transformers",
}
"""What was compared, in the order of the table."""
SHAPES = {"causal": "decoders", "seq2seq": "encoder-decoders", "masked": "encoders"}


def equal(check: Mapping[str, Any]) -> bool:
    """Whether both sides said the same."""
    return check["differs"] is None and check["compared"] > 0


def section(record: Mapping[str, Any]) -> str:
    """The table, and which families it is of."""
    families, versions = record["families"], record["versions"]
    by_check: dict[str, list[tuple[str, Mapping[str, Any]]]] = {name: [] for name in WORDS}
    for family, found in families.items():
        for name, check in found["checks"].items():
            by_check[name].append((family, check))
    lines = ["| what | families | values | same | largest difference |", "| --- | --- | --- | --- | --- |"]
    for name, words in WORDS.items():
        checks = by_check[name]
        same = sum(equal(check) for _, check in checks)
        worst = max(check["difference"] for _, check in checks)
        values = sum(check["compared"] for _, check in checks)
        lines.append(f"| {words} | {len(checks)} | {values:,} | {same} | {f'{worst:.1e}' if worst else 'none'} |")
    tools = {"transformers": "transformers", "lm_eval": "lm-evaluation-harness", "trl": "TRL"}
    said = ", ".join(f"{name} {versions[key]}" for key, name in tools.items())
    before = prose(
        f"`python -m benchmarks.as_authors` gives {len(families)} tiny random models, with a tokenizer that adds tokens and "
        f"many ends, to these tools ({said}) and to this package. Texts are compared token for token, numbers to a relative "
        "1e-4:"
    )
    names = "; ".join(
        f"{words}: {', '.join(f'`{name}`' for name, found in families.items() if found['shape'] == shape)}"
        for shape, words in SHAPES.items()
    )
    return f"{before}\n" + "\n".join(lines) + f"\n\n{prose(names + '.')}\n{prose(APART)}"


def page(record: Mapping[str, Any]) -> str:
    """The page with its table."""
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    return before + BEGIN + section(record) + END + rest.split(END, 1)[1]


if __name__ == "__main__":
    PAGE.write_text(page(json.loads(RESULT.read_text(encoding="utf-8"))), encoding="utf-8")
