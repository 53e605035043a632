"""vLLM in this process, one step at a time: its logits are handed out, and it goes on with the tokens that it is given.

vLLM chooses tokens itself, inside of a step. So it runs in a thread of its own, and stops where its logits are ready, in a
processor of logits; that leaves every row the token that was chosen here as the only one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import torch
from torch import Tensor

from anyformer.engines.engine import EngineRefusedError
from anyformer.model import Architecture
from anyformer.operations import Shape

PLACE = "place"
"""Key of a request's own arguments: which text it is."""
VARIABLES = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_LOGGING_LEVEL": "ERROR",
    "HF_HUB_OFFLINE": "1",
}  # fmt: skip
"""What vLLM reads when it is imported: one process, no reports, no talk."""
BLOCKS = 2**26
"""Bytes of cache beside what texts need, for blocks that they do not fill."""


@dataclass(frozen=True)
class VllmRoom:
    """So many texts of at most this length, whose prompts have so many tokens together, as one step reads them."""

    rows: int
    length: int
    tokens: int

    def __le__(self, other: VllmRoom) -> bool:
        return self.rows <= other.rows and self.length <= other.length and self.tokens <= other.tokens

    def within(self, length: int | None) -> VllmRoom:
        """For texts of at most this length."""
        return self if length is None else replace(self, length=min(self.length, length))

    def but_at_least(self, other: VllmRoom) -> VllmRoom:
        """The larger of every size; a step holds at least the longest text."""
        length = max(self.length, other.length)
        return VllmRoom(max(self.rows, other.rows), length, max(self.tokens, other.tokens, length))


LEAST = VllmRoom(8, 1024, 1024)
"""Room that a model is opened with at least, so that what follows its proof seldom opens it again."""


class LogitsExchange:
    """Where both threads meet: logits by place go one way, tokens by place the other."""

    def __init__(self) -> None:
        self._logits: SimpleQueue[dict[int, Tensor] | BaseException] = SimpleQueue()
        self._tokens: SimpleQueue[Mapping[int, int]] = SimpleQueue()

    def ask(self, logits: dict[int, Tensor]) -> Mapping[int, int]:
        """In vLLM's thread: hand logits out, and wait for the tokens."""
        self._logits.put(logits)
        return self._tokens.get()

    def fail(self, error: BaseException) -> None:
        """In vLLM's thread: what it died of, or that it has nothing more to do."""
        self._logits.put(error)

    def wait(self) -> dict[int, Tensor]:
        """The next logits."""
        found = self._logits.get()
        if isinstance(found, BaseException):
            raise EngineRefusedError(f"vLLM gave up: {type(found).__name__}: {found}") from found
        return found

    def give(self, tokens: Mapping[int, int]) -> None:
        """The tokens that go on."""
        self._tokens.put(tokens)


def relay(model: VllmModel) -> type:
    """vLLM's processor of logits that asks for tokens."""
    from vllm.v1.sample.logits_processor.interface import BatchUpdate, LogitsProcessor, MoveDirectionality

    class LogitsRelay(LogitsProcessor):  # type: ignore[misc, unused-ignore]
        """Rows of vLLM's batch by the texts that they are of."""

        def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
            self.places: dict[int, int] = {}

        def is_argmax_invariant(self) -> bool:
            return False

        def update_state(self, batch_update: BatchUpdate | None) -> None:
            if batch_update is None:
                return
            for row in batch_update.removed:
                self.places.pop(row, None)
            for row, params, *_ in batch_update.added:
                self.places[row] = params.extra_args[PLACE]
            for left, right, way in batch_update.moved:
                place, other = self.places.pop(left), self.places.pop(right, None)
                self.places[right] = place
                if way is MoveDirectionality.SWAP and other is not None:
                    self.places[left] = other

        def apply(self, logits: Tensor) -> Tensor:
            if not self.places:  # a rehearsal of vLLM's own
                return logits
            tokens = model.exchange.ask({place: logits[row].float().clone() for row, place in self.places.items()})
            logits.fill_(float("-inf"))
            for row, place in self.places.items():
                logits[row, tokens[place]] = 0.0
            return logits

    return LogitsRelay


class VllmModel:
    """A directory that vLLM opens when texts are first read, and again where they need more room.

    `trained`: the length that the model was trained at, beyond which vLLM must be told to read.
    """

    def __init__(self, directory: Path, dtype: str, architecture: Architecture, trained: int | None = None) -> None:
        self._directory, self._dtype, self._architecture, self._trained = directory, dtype, architecture, trained
        self.exchange = LogitsExchange()
        self._engine: Any = None
        self._room = VllmRoom(0, 0, 0)
        self._places: VllmPlaces | None = None

    def begun(self, places: VllmPlaces, room: VllmRoom) -> Any:
        """vLLM's engine with so much room, for texts that begin; those before them are forgotten."""
        if self._places is not None:
            self._places.close()
        if self._engine is None or not room <= self._room:
            self._engine = None  # gives its memory back first
            self._room = room.but_at_least(LEAST.within(self._trained))
            self._engine = self._opened()
        self._places, self.exchange = places, LogitsExchange()
        return self._engine

    def _opened(self) -> Any:
        for name, value in VARIABLES.items():
            os.environ.setdefault(name, value)
        from vllm import EngineArgs
        from vllm.v1.engine.llm_engine import LLMEngine

        room = self._room
        beyond = self._trained is not None and room.length > self._trained
        held = self._architecture.folded_cost(Shape(batch=room.rows, capacity=room.length)).total_state_bytes
        wanted = EngineArgs(
            model=str(self._directory), skip_tokenizer_init=True, dtype=self._dtype, enforce_eager=True,
            max_num_seqs=room.rows, max_model_len=room.length, max_num_batched_tokens=room.tokens,
            enable_chunked_prefill=False, enable_prefix_caching=False, async_scheduling=False, use_tqdm_on_load=False,
            kv_cache_memory_bytes=4 * held + BLOCKS, logits_processors=[relay(self)],
            hf_overrides={"max_position_embeddings": room.length} if beyond else {},
        )  # fmt: skip
        try:
            return LLMEngine.from_engine_args(wanted)
        except (ValueError, RuntimeError, NotImplementedError, ImportError, KeyError) as error:
            said = " ".join(str(error).split())[:300]
            raise EngineRefusedError(f"vLLM does not open it: {type(error).__name__}: {said}") from None


class VllmPlaces:
    """`generation.places.Places` in vLLM: all prompts begin together, and every step reads a token of all that go on."""

    def __init__(self, model: VllmModel, prompts: Sequence[Sequence[int]], count: int, max_tokens: int) -> None:
        if count < len(prompts):
            raise EngineRefusedError(f"it reads all {len(prompts)} prompts together: leave --batch {count} out")
        self.count, self.device = len(prompts), torch.device("cpu")
        self._prompts, self._max_tokens = prompts, max_tokens
        self._held, self._gone = set[int](), set[int]()
        self._thread: threading.Thread | None = None
        lengths = [len(prompt) for prompt in prompts]
        self._engine = model.begun(self, VllmRoom(len(prompts), max(lengths) + max_tokens, sum(lengths)))
        self._exchange = model.exchange

    def enter(self, at: Sequence[int], numbers: Sequence[int]) -> Tensor:
        """Read all prompts."""
        from vllm import SamplingParams

        assert self._thread is None, "all prompts begin together"
        for place, number in zip(at, numbers, strict=True):
            wanted = SamplingParams(
                temperature=0, max_tokens=self._max_tokens, detokenize=False, ignore_eos=True, extra_args={PLACE: place}
            )
            prompt = {"prompt_token_ids": list(self._prompts[number])}
            self._engine.add_request(self._name(place), prompt, wanted)
        self._held = set(at)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        logits = self._waited()
        return torch.stack([logits[place] for place in at])

    def advance(self, tokens: Sequence[int]) -> Tensor:
        """Read a token at every place that holds a text."""
        self._exchange.give(dict(enumerate(tokens)))
        logits = self._waited()
        none = torch.zeros_like(next(iter(logits.values())))
        return torch.stack([logits.get(place, none) for place in range(self.count)])

    def leave(self, at: Sequence[int]) -> None:
        """Forget texts, as soon as the step that is under way has ended."""
        self._held -= set(at)
        self._gone |= set(at)
        if not self._held:
            self.close()

    def close(self) -> None:
        """Forget all texts, and let the step that is under way end."""
        if self._thread is None or not self._thread.is_alive():
            return
        self._gone |= self._held
        self._held = set()
        self._exchange.give(dict.fromkeys(range(self.count), 0))
        self._thread.join()

    def _name(self, place: int) -> str:
        """Of the request that a place's text is."""
        return f"{id(self)}-{place}"

    def _waited(self) -> dict[int, Tensor]:
        logits = self._exchange.wait()
        if missing := self._held - logits.keys():
            raise EngineRefusedError(f"vLLM has no room for {len(missing)} of {self.count} texts: give fewer at once")
        return logits

    def _run(self) -> None:
        """In a thread of its own: steps, as long as texts go on."""
        try:
            while self._engine.has_unfinished_requests():
                if self._gone:
                    self._engine.abort_request([self._name(place) for place in self._gone])
                    self._gone.clear()
                else:
                    self._engine.step()
        except BaseException as error:  # told to the thread that waits
            self._exchange.fail(error)
