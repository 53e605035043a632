"""Plain solutions of every task, which share nothing with the package: from what a position has read, what is asked there.

Each takes the symbols of a row by name and gives {position: answer}. They are written from the definitions, in plain loops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

Row = Sequence[str]
Solved = Mapping[int, str]


def mqar(row: Row) -> Solved:
    known: dict[str, str] = {}
    asked = {}
    for place, symbol in enumerate(row):
        if symbol[0] == "k" and symbol in known:
            asked[place] = known[symbol]
        elif symbol[0] == "v":
            known[row[place - 1]] = symbol
    return asked


def induction(row: Row) -> Solved:
    """The first letter that stands there twice begins the piece."""
    begin = next(place for place, letter in enumerate(row) if letter in row[:place])
    return {place: row[row.index(row[place]) + 1] for place in range(begin, len(row))}


def _behind(row: Row, answer: Callable[[Row], Row]) -> Solved:
    sign = row.index("=")
    wanted = answer(row[:sign])
    return {sign + number: symbol for number, symbol in enumerate(wanted)}


def copying(row: Row) -> Solved:
    return _behind(row, lambda read: read)


def reversal(row: Row) -> Solved:
    return _behind(row, lambda read: list(reversed(read)))


def selective_copying(row: Row) -> Solved:
    return _behind(row, lambda read: [symbol for symbol in read if symbol != "_"])


def sorting(row: Row) -> Solved:
    return _behind(row, lambda read: sorted(read, key=lambda symbol: int(symbol[1:])))


def modular_addition(row: Row) -> Solved:
    return _behind(row, lambda read: [f"n{(int(read[0][1:]) + int(read[1][1:])) % 11}"])


def addition(row: Row) -> Solved:
    def total(read: Row) -> list[str]:
        numbers = "".join(read).split("+")
        return list(str(sum(map(int, numbers))).zfill(len(numbers[0]) + 1))

    return _behind(row, total)


def needle(row: Row) -> Solved:
    return _behind(row, lambda read: [read[read.index(read[-1]) + 1]])


def indirect_object(row: Row) -> Solved:
    return _behind(row, lambda read: [symbol for symbol in read if symbol[0] == "n" and read.count(symbol) == 1])


def parity(row: Row) -> Solved:
    return {place: str(row[: place + 1].count("1") % 2) for place in range(len(row))}


def dyck(row: Row) -> Solved:
    stack, asked = list[str](), {}
    for place, symbol in enumerate(row):
        if symbol == ")":
            asked[place] = stack.pop()
        else:
            stack.append(symbol)
    return asked


def fuzzy_recall(row: Row) -> Solved:
    """Words are runs of k's and of v's; the second half of the pairs is asked."""
    words: list[list[int]] = []
    for place, symbol in enumerate(row):
        if words and row[words[-1][-1]][0] == symbol[0]:
            words[-1].append(place)
        else:
            words.append([place])
    half = len(words) // 2
    known = {
        tuple(row[i] for i in key): [row[i] for i in value] for key, value in zip(words[:half:2], words[1:half:2], strict=True)
    }
    asked = {}
    for key, value in zip(words[half::2], words[half + 1 :: 2], strict=True):
        for place, letter in zip(value, known[tuple(row[i] for i in key)], strict=True):
            asked[place - 1] = letter
    return asked


def compression(row: Row) -> Solved:
    return {place: row[int(symbol[1:])] for place, symbol in enumerate(row) if symbol[0] == "@"}


def regression(row: Row) -> Solved:
    """Two entries a point: the one function, or any of those, that has all values of the row."""
    numbers = [int(symbol[1:]) for symbol in row]
    points = [(numbers[at], numbers[at + 1], numbers[at + 2]) for at in range(0, len(row), 3)]
    first, second = next(
        (a, b) for a in range(-2, 3) for b in range(-2, 3) if all(a * one + b * two == value for one, two, value in points)
    )
    return {3 * place + 1: f"y{first * one + second * two}" for place, (one, two, _) in enumerate(points)}


ORACLES = {
    each.__name__: each
    for each in (
        mqar, induction, copying, reversal, selective_copying, sorting, modular_addition, addition, needle, parity, dyck,
        fuzzy_recall, compression, regression, indirect_object,
    )
}  # fmt: skip
"""The tasks whose answers follow from the row; those of `memorisation` are told nowhere."""
