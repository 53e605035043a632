"""Weights as a directory or a file stores them in few bits, beside what loading makes of them, on pages of costs."""

from __future__ import annotations

from dataclasses import asdict
from os.path import exists  # which no name is too long for
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anyformer.costs.rows import Section
    from anyformer.huggingface.stored_form import StoredForm


def stored_form(name: str) -> StoredForm | None:
    """The form of what an argument names; None where it names no weights, or plain numbers."""
    if not exists(name):
        return None
    from anyformer.huggingface.stored_form import form_of

    return form_of(name)


def section(form: StoredForm) -> Section:
    """The form as a section of a page: every way with its tensors, its bytes, and its bytes once loaded."""
    from anyformer.costs.figures import count, size
    from anyformer.costs.rows import FigureRow, Section

    rows = [FigureRow(way.name, (count(way.tensors), size(way.nbytes), size(way.loaded))) for way in form.ways]
    total = FigureRow("all", (count(sum(way.tensors for way in form.ways)), size(form.nbytes), size(form.loaded)), strong=True)
    return Section("Weights as stored", ("weights", "stored", f"loaded in {form.dtype}"), (*rows, total))


def line(form: StoredForm) -> str:
    """The form in one line."""
    from anyformer.costs.figures import size

    return f"{size(form.nbytes)}, most as {form.ways[0].name}; loading makes {size(form.loaded)} of it, in {form.dtype}"


def data(form: StoredForm) -> dict[str, Any]:
    """The form as plain data, in bytes."""
    ways = [asdict(way) for way in form.ways]
    return {"ways": ways, "nbytes": form.nbytes, "loaded": form.loaded, "dtype": form.dtype}
