"""`PaddedPlaces`: which places of an engine hold texts, where a step computes the first 1, 2, 4, ... of them."""

from __future__ import annotations

import heapq


class PaddedPlaces:
    """`count` places, of which a text takes the first that is free when its prompt is begun, and keeps it.

    All places end at the same position, so that each is computed with as many keys as the longest text has.
    """

    def __init__(self, count: int) -> None:
        self._free = list(range(count))
        self._of: dict[int, int] = {}  # text -> its place
        self._longer: dict[int, int] = {}  # text that gets tokens -> its tokens less the number of the step

    def take(self, text: int) -> None:
        """A prompt is begun."""
        self._of[text] = heapq.heappop(self._free)

    def begin(self, text: int, tokens: int) -> None:
        """A text gets tokens from now on: it has so many, less the number of this step."""
        self._longer[text] = tokens

    def leave(self, text: int) -> None:
        """A text has ended."""
        heapq.heappush(self._free, self._of.pop(text))
        self._longer.pop(text, None)

    def computed(self, texts: int, step: int) -> tuple[int, float]:
        """(fewest texts side by side that are computed as these are, cached tokens of so many as the longest has).

        Texts in the first 3 of 8 places take what 3 do, and one in the third place what 3 do too: 4 places are computed.
        """
        rows = 1 << max(self._of[text] for text in self._longer).bit_length()
        alike = max(texts, rows // 2 + 1 if rows > 1 else 1)
        return alike, float(alike * (max(self._longer.values()) + step))
