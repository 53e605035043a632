"""`TextInquiry`: the texts of one HTTP request, whose events come from the worker's thread to the server's loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace

from anyformer.serving.loop_post import LoopPost
from anyformer.serving.protocol_error import ProtocolError
from anyformer.serving.request import ServedRequest
from anyformer.serving.served_text import TextEvent
from anyformer.serving.worker import ServingWorker, Sink


class TextInquiry:
    """Its `events` are read in the loop of `post`. Whoever leaves it before the last one frees all that its texts hold."""

    def __init__(
        self, worker: ServingWorker, post: LoopPost, texts: Sequence[ServedRequest], seconds: float | None = None
    ) -> None:
        self._worker, self._post, self._seconds, self._left = worker, post, seconds, len(texts)
        self._queue: asyncio.Queue[TextEvent] = asyncio.Queue()
        self._numbers = worker.submit([(text, self._sink(place)) for place, text in enumerate(texts)])

    async def events(self) -> AsyncGenerator[TextEvent, None]:
        """The events of all texts, whose numbers are their places in the request. Raises `ProtocolError` where one fails."""
        try:
            async with asyncio.timeout(self._seconds):
                while self._left:
                    event = await self._queue.get()
                    if event.error is not None:
                        raise ProtocolError(event.error, event.status)
                    self._left -= event.last
                    yield event
        except TimeoutError:
            raise ProtocolError(
                f"the text was not whole after {self._seconds:g} seconds (--time-limit): ask for fewer tokens", 504
            ) from None
        finally:
            self.close()

    def close(self) -> None:
        """Free what texts hold that nobody waits for any more."""
        if self._left:
            self._left = 0
            for number in self._numbers:
                self._worker.cancel(number)

    def _sink(self, place: int) -> Sink:
        def given(event: TextEvent) -> None:
            self._post.put(self._queue, replace(event, number=place))

        return given
