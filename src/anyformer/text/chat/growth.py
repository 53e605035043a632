"""How large what an operation of a template makes becomes, before it is made."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from anyformer.text.chat.budget import LARGEST_NUMBER, SLOT, TemplateBudget, too_much

_DIGITS = re.compile(r"\d+")
_LINE_ENDS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
_SLOW_AT = 100_000
"""Characters that the filters of HTML and of words read: their time grows with the square."""
Size = Callable[..., int]


def check_numbers(values: Sequence[Any]) -> None:
    """Refuse a number in a call that no width or count is."""
    for value in values:
        if isinstance(value, int) and abs(value) > LARGEST_NUMBER:
            raise too_much(f"asks for a width or count of more than {LARGEST_NUMBER:,}")


def joined(budget: TemplateBudget, separator: Any, items: Any = (), *_: Any) -> int:
    return budget.weigh(items) + budget.weigh(separator) * (len(items) if isinstance(items, Sequence) else 1)


def replaced(budget: TemplateBudget, text: Any, old: Any = "", new: Any = "", *_: Any) -> int:
    if not isinstance(text, str) or not isinstance(old, str):
        return budget.weigh(text) * (1 + budget.weigh(new))
    return len(text) + text.count(old) * budget.weigh(new)


def formatted(budget: TemplateBudget, form: Any, *values: Any) -> int:
    """Of `%` and of `format`: every place may show the longest value, and each number may be a width."""
    if not isinstance(form, str):
        return budget.weigh(form, *values)
    places = form.count("%") + form.count("{")
    widths = sum(min(int(digits[:12]), 10**12) for digits in _DIGITS.findall(form))
    if "*" in form or re.search(r"\{[^{}]*\{", form):
        check_numbers([number for value in values for number in (value if isinstance(value, tuple | list) else [value])])
        widths += places * LARGEST_NUMBER
    return len(form) + places * budget.weigh(*values) + widths


def translated(budget: TemplateBudget, text: Any, table: Any = None, *_: Any) -> int:
    longest = max((budget.weigh(value) for value in table.values()), default=0) if isinstance(table, Mapping) else 1
    return budget.weigh(text) * longest


def expanded(budget: TemplateBudget, text: Any, size: Any = 8, *_: Any) -> int:
    return budget.weigh(text) + int(text.count("\t")) * (size if isinstance(size, int) else 8)


def parted(budget: TemplateBudget, text: Any, separator: Any = None, *_: Any) -> int:
    """Of the parts of a text: each costs more than its characters."""
    if isinstance(separator, str) and separator:
        return budget.weigh(text) + 4 * SLOT * int(text.count(separator))
    return 2 * SLOT * budget.weigh(text)


def indented(budget: TemplateBudget, text: Any, width: Any = 4, *_: Any) -> int:
    lines = 1 + sum(map(text.count, _LINE_ENDS)) if isinstance(text, str) else 1
    return budget.weigh(text) + lines * (width if isinstance(width, int) else budget.weigh(width))


def as_json(budget: TemplateBudget, value: Any, *more: Any) -> int:
    check_numbers([100 * each for each in more if isinstance(each, int)])
    return 6 * budget.weigh(value, *(each for each in more if isinstance(each, str))) * (50 if any(more) else 1)


def listed(budget: TemplateBudget, value: Any, *_: Any) -> int:
    """Of a list of what a value has, not of what is inside that."""
    if isinstance(value, str):
        return 4 * SLOT * len(value)
    size = len(value) if isinstance(value, Sequence | Mapping) else 0
    budget.step(1 + size // 8)
    return SLOT * size


def summed(budget: TemplateBudget, value: Any, *_: Any) -> int:
    return listed(budget, value) + budget.weigh(value) * (len(value) if isinstance(value, Sequence) else 1)


def slow(budget: TemplateBudget, value: Any, *more: Any) -> int:
    if (size := budget.weigh(value, *more)) > _SLOW_AT:
        raise too_much("hands a filter of HTML or of words too long a text")
    return 12 * size


def whole(budget: TemplateBudget, *values: Any) -> int:
    """Of what becomes not much longer than what it is made of."""
    return 2 * budget.weigh(*values)


def nothing(budget: TemplateBudget, value: Any, *_: Any) -> int:
    """Of what looks at no more than a value itself."""
    return 0


METHODS: Mapping[str, Size] = {
    "join": joined, "replace": replaced, "format": formatted, "format_map": formatted, "translate": translated,
    "expandtabs": expanded, "split": parted, "rsplit": parted, "splitlines": parted,
    "get": lambda budget, table, *given: budget.weigh(*given), "copy": listed,
    "items": nothing, "keys": nothing, "values": nothing,
}  # fmt: skip
"""Methods of texts, lists and tables; of all others `whole`."""
FILTERS: Mapping[str, Size] = {
    "join": lambda budget, items, separator="", *more: joined(budget, separator, items), "replace": replaced,
    "format": formatted, "indent": indented, "tojson": as_json, "sum": summed,
    **dict.fromkeys(("list", "reverse", "items", "select", "reject", "selectattr", "rejectattr", "map"), listed),
    **dict.fromkeys(("batch", "slice"), listed),
    **dict.fromkeys(("length", "count", "first", "last", "default", "d", "attr", "random", "abs"), nothing),
    **dict.fromkeys(("urlize", "striptags", "xmlattr", "wordwrap", "wordcount", "title", "pprint", "urlencode"), slow),
}  # fmt: skip
"""Filters; of all others `whole`."""
WIDTHS = frozenset(
    ("center", "ljust", "rjust", "zfill", "expandtabs", "to_bytes", "indent", "wordwrap", "truncate", "batch", "slice", "round")
)
"""Methods and filters of which a number is a width or a count."""


def of_operator(budget: TemplateBudget, operator: str, left: Any, right: Any) -> int:
    """Of `+`, `*`, `%` and `**`."""
    numbers = isinstance(left, int) and isinstance(right, int)
    if operator == "+" or (operator == "*" and numbers):
        if numbers:
            return _number(left.bit_length() + right.bit_length() if operator == "*" else 0)
        return made_of(left) + made_of(right)
    if operator == "*":
        count, items = (left, right) if isinstance(left, int) else (right, left)
        return made_of(items) * max(0, count) if isinstance(count, int) else SLOT
    if operator == "**":
        return _number(left.bit_length() * max(0, right) if numbers and abs(left) > 1 else 0)
    return formatted(budget, left, right) if isinstance(left, str) else SLOT


def made_of(value: Any) -> int:
    """What a text or a list adds to a longer one: of a text of HTML, up to six characters for each."""
    if isinstance(value, str | bytes):
        return len(value) * (1 if type(value) is str else 6)
    return SLOT * len(value) if isinstance(value, list | tuple) else SLOT


def _number(bits: int) -> int:
    if bits > LARGEST_NUMBER:
        raise too_much(f"computes a number of more than {LARGEST_NUMBER:,} bits")
    return SLOT
