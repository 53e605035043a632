"""`ServingEngine`: texts that go on together, one pass after another; which prompt is read next, and which text has room.

Iteration-level scheduling (Yu et al. 2022, Orca, OSDI) with prompts read in chunks beside the texts under way (Agrawal et al.
2024, Sarathi-Serve, arXiv 2403.02310). Requests are taken in the order in which they come, and none overtakes another. A text
is taken where there is room for all that it will hold, so that none is ever thrown out.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass
from typing import Literal

from anyformer.describe import UserError
from anyformer.planning.queues.drafts import Drafts
from anyformer.planning.queues.padded import PaddedPlaces
from anyformer.planning.queues.requests import ArrivingRequests
from anyformer.planning.queues.steps import PromptChunk, StepTimes

Role = Literal["both", "reads", "decodes"]
"""An engine reads prompts and writes answers, or does one of these, where the two are disaggregated."""


@dataclass(frozen=True)
class EngineRules:
    """How an engine composes its steps.

    `places`: texts at most. `budget`: new tokens of a step at most, those of texts under way among them, as vLLM's
    `max_num_batched_tokens`; with `apart`, tokens of prompts that are read in passes behind that of the texts, of one prompt
    and of those that are whole within what it leaves, as `anyformer serve` does: a step is several passes then, what comes of
    each is known at its end, and requests that come during a step wait for the next. `padded`: a step computes the first 1, 2,
    4, ... places, as many as hold texts, each with the keys of the longest text, as `anyformer serve` does too. `drafts`:
    speculative decoding.
    """

    places: int = 256
    budget: int = 2048
    apart: bool = False
    padded: bool = False
    drafts: Drafts | None = None

    def __post_init__(self) -> None:
        if self.places < 1 or self.budget < 1:
            raise UserError(f"{self.places} texts and {self.budget} tokens of a step: give 1 or more of each")
        if not self.apart and self.budget < self.places * self.positions:
            raise UserError(
                f"a step of {self.budget:,} tokens cannot give each of {self.places:,} texts {self.positions}: give a budget "
                f"of {self.places * self.positions:,} or more, or fewer texts"
            )
        if self.padded and self.drafts is not None:
            raise UserError("steps of 1, 2, 4, ... places are simulated without speculative decoding: leave one of them out")

    @property
    def positions(self) -> int:
        """New tokens of a text that a step reads."""
        return 1 if self.drafts is None else 1 + self.drafts.count


class ServingEngine:
    """`begin` composes a pass and says how long it takes; `end` says what came of it. It knows no clock.

    A step is one pass, or with `apart` one of the texts under way and one of each prompt that is read behind it.

    `held`: bytes of the texts in it, each counted with all that it will hold; `waiting`: requests that it has not begun.
    """

    def __init__(
        self, requests: ArrivingRequests, times: StepTimes, rules: EngineRules, role: Role = "both", number: int = 0
    ) -> None:
        self.times, self.rules, self.role, self.number = times, rules, role, number
        self.waiting: deque[int] = deque()
        self.held = 0
        self.read = 0
        """Tokens of prompts that were computed."""
        self._prompt, self._output = requests.prompt.tolist(), requests.output.tolist()
        self._shared, self._group = requests.shared.tolist(), requests.group.tolist()
        self._steps = requests.steps.tolist()
        self._known: set[int] = set()  # groups whose beginning is read
        self._kept: set[int] = set()  # groups whose beginning is counted in `held`, and stays
        self._own: dict[int, int] = {}  # bytes that are free when a text ends
        self._reading: deque[list[int]] = deque()  # [request, tokens that are read]
        self._running: list[tuple[int, int]] = []  # (step behind which it ends, request)
        self._cached = self._growing = 0.0
        self._places = PaddedPlaces(rules.places * times.lanes) if rules.padded else None
        self._step = 0  # those in which texts under way got a token
        self._advances = False  # whether they get one in the pass under way
        self._first: list[int] = []  # requests whose prompts end in the pass under way
        self._left: int | None = None  # with `apart`: tokens of prompts that the step under way may still read
        self._came = 0  # and requests that had come when it began, less those taken since

    @property
    def idle(self) -> bool:
        return not (self.waiting or self._reading or self._running)

    @property
    def load(self) -> int:
        """Requests that are in it."""
        return len(self.waiting) + len(self._reading) + len(self._running)

    def _fits(self, request: int) -> bool:
        """Take the bytes of all that a request will hold here, if they are free: its prompt alone where an engine only reads.

        A beginning that is known is not held again; one that will be known stays.
        """
        answer = 0 if self.role == "reads" else self._output[request]
        needed = self.times.held(self._prompt[request] + answer)
        group, common = self._group[request], 0
        if self._shared[request] and self.role != "decodes":
            common = self.times.held(self._shared[request])
            needed -= common if group in self._known else 0
        if self.held + needed > self.times.room:
            return False
        self.held += needed
        if common and group not in self._kept:
            self._kept.add(group)
            needed -= common
        self._own[request] = needed
        return True

    def begin(self) -> float:
        """Compose the next pass; its seconds."""
        self._first = []
        if self.role == "decodes":
            self._take_read()
        if self.rules.apart:
            return self._begin_apart()
        decoding = len(self._running)
        chunks: list[PromptChunk] = []
        if self.role != "decodes":
            self._read(chunks, self.times.lanes * self.rules.budget - decoding * self.rules.positions)
        return self._seconds(decoding, chunks)

    def _begin_apart(self) -> float:
        """The pass of the texts under way, then one of each prompt that the step reads, then the next step."""
        while True:
            if self._left is None:
                self._left, self._came = self.times.lanes * self.rules.budget, len(self.waiting)
                if self._running:
                    return self._seconds(len(self._running), [])
            if (chunk := self._next_chunk(self._left)) is not None:
                # Behind a prompt that is not whole nothing is read in this step.
                self._left = 0 if self._reading else self._left - chunk.tokens
                return self._seconds(0, [chunk])
            self._left = None

    def _next_chunk(self, left: int) -> PromptChunk | None:
        """What the step reads next, if anything: of the prompt that is being read, or of the next one."""
        if self._reading and left:
            return self._chunk(self._reading[0], left)
        whole = left < self.times.lanes * self.rules.budget
        if left and self._came and self.role != "decodes" and (begun := self._take(left if whole else None)) is not None:
            self._came -= 1
            return self._chunk(begun, left)
        return None

    def _seconds(self, decoding: int, chunks: list[PromptChunk]) -> float:
        step, drafts, positions, cached = self.times.step, self.rules.drafts, self.rules.positions, 0.0
        self._advances = bool(decoding) or not self.rules.apart
        if decoding:
            cached = self._cached
            if self._places is not None:
                decoding, cached = self._places.computed(decoding, self._step)
        seconds = step(decoding, cached, chunks, len(self._first), positions)
        if drafts is not None and decoding and drafts.share:
            seconds += drafts.count * drafts.share * step(decoding, cached, (), 0)
        self._step += self._advances
        return seconds

    def _read(self, chunks: list[PromptChunk], left: int) -> None:
        """Fill a step with chunks of the prompts being read, and of those for which there is room."""
        for begun in list(self._reading):
            if left <= 0:
                return
            chunks.append(self._chunk(begun, left))
            left -= chunks[-1].tokens
        while left > 0 and (new := self._take()) is not None:
            chunks.append(self._chunk(new, left))
            left -= chunks[-1].tokens

    def _take(self, most: int | None = None) -> list[int] | None:
        """Begin with the next request, if there is room and it has at most so many tokens to read."""
        if not self.waiting:
            return None
        request = self.waiting[0]
        past = self._shared[request] if self._group[request] in self._known else 0
        taken = len(self._running) + len(self._reading) + len(self._first)
        if most is not None and self._prompt[request] - past > most:
            return None
        if taken >= self.rules.places * self.times.lanes or not self._fits(request):
            return None
        self.waiting.popleft()
        if self._places is not None:
            self._places.take(request)
        self._reading.append([request, past])
        return self._reading[-1]

    def _chunk(self, begun: list[int], left: int) -> PromptChunk:
        """Read as much as is left to read, or may be."""
        request, past = begun
        prompt = self._prompt[request]
        tokens = int(min(left, prompt - past))
        self.read += tokens
        begun[1] = past + tokens
        if begun[1] == prompt:
            self._reading.remove(begun)
            self._first.append(request)
        return PromptChunk(tokens, past)

    def _take_read(self) -> None:
        """Take texts whose prompts another engine has read."""
        while self.waiting and len(self._running) < self.rules.places * self.times.lanes:
            if not self._fits(self.waiting[0]):
                return
            if self._places is not None:
                self._places.take(self.waiting[0])
            self._run(self.waiting.popleft())

    def _run(self, request: int) -> None:
        steps = self._steps[request]
        heapq.heappush(self._running, (self._step + steps, request))
        self._cached += self._prompt[request]
        self._growing += (self._output[request] - 1) / steps
        if self._places is not None:
            self._places.begin(request, self._prompt[request] - self._step)

    def end(self) -> tuple[list[int], list[int]]:
        """(requests that have their first token, requests that have their last one) behind the pass."""
        ended: list[int] = []
        if self._advances:
            self._cached += self._growing
            self._end_texts(ended)
        for request in self._first:
            self._known.add(self._group[request])
            if self.role == "reads" or not self._steps[request]:
                self._leave(request, ended)
            else:
                self._run(request)
        first, self._first = self._first, []
        return first, ended

    def _end_texts(self, ended: list[int]) -> None:
        """Let those go that have their last token."""
        running = self._running
        while running and running[0][0] <= self._step:
            _, request = heapq.heappop(running)
            self._cached -= self._prompt[request] + self._output[request] - 1
            self._growing -= (self._output[request] - 1) / self._steps[request]
            self._leave(request, ended)
        if not running:
            self._cached = self._growing = 0.0  # what rounding has left

    def _leave(self, request: int, ended: list[int]) -> None:
        self.held -= self._own.pop(request)
        if self._places is not None:
            self._places.leave(request)
        ended.append(request)
