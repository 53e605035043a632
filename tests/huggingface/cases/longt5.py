"""LongT5, whose windows are shorter than the source, and whose head is tied or not."""

from __future__ import annotations

from huggingface.case import Case
from huggingface.cases.t5 import APART, BASE

CASES = [
    Case("longt5", BASE | {"local_radius": 2}, "Seq2SeqLM", "tied"),
    Case("longt5", BASE | APART | {"local_radius": 3, "global_block_size": 4}, "Seq2SeqLM", "apart", untied=True),
]
