"""The pages of precision and of formats follow the bits and measurements, and mark exactly the notes' errors."""

from __future__ import annotations

import runpy
from pathlib import Path

import torch

DOCS = Path(__file__).parents[2] / "docs"
MAKER = runpy.run_path(str(DOCS / "make_precision.py"))


def test_the_page_of_precision_is_up_to_date():
    for path, text in MAKER["pages"]().items():
        assert path.read_text(encoding="utf-8") == text, "run: python docs/make_precision.py"


def test_three_figures_of_the_notes_are_wrong():
    wrong = [line.split(" | ")[0] + line.split("**")[1] for line in MAKER["notes"]() if "**" in line]
    assert wrong == ["| FP8-E4M3wrong, 0.0156", "| FP8-E5M2wrong, 6.1e-05", "| INT4wrong, 1"]


def test_matrix_products_are_not_in_tf32_unless_asked():
    assert torch.backends.cudnn.allow_tf32
    assert not torch.backends.cuda.matmul.allow_tf32
