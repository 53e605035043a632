"""`Scheduler`: which text is read or gone on with next. It knows no thread and no clock: every step is a call.

Prompts are read in chunks, one between two steps of the texts under way, so that none of these waits for more than a chunk;
short prompts share one (Agrawal et al. 2024, Sarathi-Serve, arXiv 2403.02310). Texts are taken in the order in which they came:
none overtakes another, so that a large one cannot wait for ever.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from torch import Tensor

from anyformer.describe import UserError
from anyformer.generation.chances import Chances
from anyformer.generation.sampling import NoChoiceError
from anyformer.serving.reading import PromptReading
from anyformer.serving.request import ServedRequest
from anyformer.serving.served_text import ServedText, TextEvent
from anyformer.serving.states import TextStates
from anyformer.text import Tokenizer


class QueueFullError(UserError):
    """As many requests wait as may."""


class Scheduler:
    """Texts that go on in `states`; at most `most_waiting` wait for room. `tokenizer`: None gives tokens without text.

    The tokens of a request are those of `generate` for its prompt alone, whatever else comes, ends or is cancelled.
    """

    def __init__(self, states: TextStates, tokenizer: Tokenizer | None = None, *, most_waiting: int = 256) -> None:
        self.states, self.most_waiting = states, most_waiting
        self._tokenizer = tokenizer
        self._waiting: OrderedDict[int, ServedText] = OrderedDict()
        self._reading: tuple[ServedText, PromptReading] | None = None
        self._running: OrderedDict[int, ServedText] = OrderedDict()

    @property
    def waiting(self) -> int:
        """Requests without room."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Texts that get a token in every step."""
        return len(self._running)

    @property
    def idle(self) -> bool:
        """Whether nothing is left to do."""
        return not (self._waiting or self._reading or self._running)

    def check_queue(self, count: int = 1) -> None:
        """Refuse `count` more requests where too many wait."""
        if len(self._waiting) + count > self.most_waiting:
            raise QueueFullError(
                f"{len(self._waiting):,} requests wait and {self.most_waiting:,} may (--queue): ask again later"
            )

    def submit(self, number: int, request: ServedRequest) -> None:
        """Let a request wait for its turn, as text `number`, which no other has. Refuses what can never be done."""
        self.states.check(request)
        self.check_queue()
        self._waiting[number] = ServedText(number, request, self._tokenizer, self.states.model.device)

    def cancel(self, number: int) -> None:
        """Forget a text; its room is free at once. Nothing happens to one that has ended."""
        if self._waiting.pop(number, None) is not None:
            return
        if self._running.pop(number, None) is not None:
            self.states.leave(number)
        elif self._reading is not None and self._reading[0].number == number:
            self._reading = None
            self.states.leave(number)

    def step(self) -> list[TextEvent]:
        """One token of every text under way, and one chunk of prompts."""
        return list(self.events())

    def events(self) -> Iterator[TextEvent]:
        """Those of `step`, each as soon as it is known: a chunk may hold several prompts, and none waits for the next."""
        yield from self._advance()
        yield from self._read()

    def stop(self) -> list[TextEvent]:
        """End all texts: those under way with what they have, those that wait with an error."""
        said = "the server stopped before the text was begun"
        events = [TextEvent(number, error=said, status=503) for number in self._waiting]
        self._waiting.clear()
        if self._reading is not None:
            number = self._reading[0].number
            events.append(TextEvent(number, error=said, status=503))
            self.cancel(number)
        for number, text in list(self._running.items()):
            events.append(text.stop())
            self.cancel(number)
        return events

    def _read(self) -> Iterator[TextEvent]:
        """A chunk of the prompt that is read, or of the next if there is room; and others that are whole within the chunk."""
        left = None
        while self._reading is not None or self._take(left):
            text, reading = self._reading  # type: ignore[misc]
            reading.step()
            if reading.logits is None:
                return
            self._reading = None
            self._running[text.number] = text
            left = (reading.chunk if left is None else left) - reading.count
            yield self._chosen(text, reading.logits, tuple(reading.told))

    def _take(self, most: int | None) -> bool:
        """Begin with the next request if there is room, and its prompt has at most so many tokens."""
        first = next(iter(self._waiting.values()), None)
        if first is None or (most is not None and len(first.request.tokens) > most) or not self.states.fits(first.request):
            return False
        del self._waiting[first.number]
        self._reading = first, self.states.enter(first.number, first.request)
        return True

    def _advance(self) -> Iterator[TextEvent]:
        """A token of every text."""
        if texts := list(self._running.values()):
            found = self.states.advance({text.number: text.last_token for text in texts})
            for text in texts:
                yield self._chosen(text, found[text.number])

    def _chosen(self, text: ServedText, logits_1V: Tensor, prompt: tuple[Chances, ...] = ()) -> TextEvent:
        """A text's next token; the room of one that ends is free. What cannot be chosen ends this text alone."""
        try:
            event = text.choose(logits_1V, prompt)
        except NoChoiceError as error:
            event = TextEvent(text.number, error=str(error))
        if event.last:
            self.cancel(text.number)
        return event
