"""Explanations of memory and time: what is written out works out, and adds up to the sheet."""

from __future__ import annotations

import re

import pytest

import anyformer as af
from anyformer.costs.derived import derived
from anyformer.costs.figures import size
from anyformer.costs.sheet import MODES


def told(name, **options):
    sheet = af.cost(af.architecture(name), **{"batch": 2, "length": 256, "hardware": "h100", **options})
    return sheet, {section.title: section for section in derived(sheet, MODES)}


def rows(section):
    return {row.name: row.figures[-1] for row in section.rows}


@pytest.mark.parametrize("name", ["llama-3-8b", "gpt2", "mixtral-8x7b", "t5-small", "gemma-3-27b", "bert-base-uncased"])
def test_products_work_out(name):
    """Every row whose text is `a x b` or `a x b x c`, counts of tokens and sequences left out."""
    _, sections = told(name)
    found = 0
    for section in sections.values():
        for what, figure in rows(section).items():
            product = re.fullmatch(r".*: ((?:[\d,]+(?: a token| tokens| a sequence)?(?: x |$))+)", what)
            if product is None:
                continue
            result = 1
            for number in re.findall(r"[\d,]+", product[1]):
                result *= int(number.replace(",", ""))
            assert figure.text == size(result).text or figure.number == result, what
            found += 1
    assert found >= 2


def test_memory_adds_up():
    sheet, sections = told("llama-3-8b")
    memory = rows(next(section for title, section in sections.items() if title.startswith("Memory of training")))
    together = memory.pop("together").number
    assert sum(figure.number for figure in memory.values()) == together == sheet.memory.total
    kept = rows(sections["Saved for the backward pass, logits and loss included"])
    total = kept.pop("together").number
    assert sum(figure.number for figure in kept.values()) == total == sheet.activations.saved + sheet.activations.loss


@pytest.mark.parametrize("name", ["llama-3-8b", "gemma-3-27b", "t5-small"])
def test_state_adds_up(name):
    sheet, sections = told(name)
    state = rows(next(section for title, section in sections.items() if title.startswith("Decode state")))
    together = state.pop("together").number
    assert sum(figure.number for figure in state.values()) == together == sheet.of("prefill").state.total


@pytest.mark.parametrize("mode", MODES)
def test_time_adds_up_and_each_operation_works_out(mode):
    sheet, sections = told("llama-3-8b")
    time = sheet.of(mode).time
    section = [each for title, each in sections.items() if title.startswith("Time of a ")][MODES.index(mode)]
    shown = rows(section)
    together = shown.pop("together").number
    assert sum(figure.number for figure in shown.values()) == pytest.approx(together) == pytest.approx(time.seconds)
    prefix = {"T": 1e12, "G": 1e9, "M": 1e6, "k": 1e3, "P": 1e15, "": 1.0}
    worked = 0
    for what, figure in shown.items():
        ratio = re.search(r": ([\d.e+]+) (\w?)(?:FLOP|B) / \(([\d.e+]+) (\w?)(?:FLOP|B)/s x ([\d.]+)\)", what)
        if ratio is not None:
            work, at = float(ratio[1]) * prefix[ratio[2]], float(ratio[3]) * prefix[ratio[4]] * float(ratio[5])
            assert figure.number == pytest.approx(work / at, rel=2e-3)
            worked += 1
    assert worked >= 3
