"""What a server counts and times, in Prometheus' form."""

from __future__ import annotations

import time
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from anyformer.serving.scheduler import Scheduler
from anyformer.serving.served_text import TextEvent

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Bounds of the histograms' classes."""


@dataclass
class TextTimes:
    """When a text came, and when its last token did."""

    came: float
    last: float | None = None


class ServingMetrics:
    """The time to a first token, between tokens, and of whole texts; the queue, the batch and the bytes of decode states."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._times: dict[int, TextTimes] = {}
        registry = self._registry
        self._first = Histogram(
            "anyformer_time_to_first_token_seconds", "From a request to its first token", buckets=SECONDS, registry=registry
        )
        self._between = Histogram(
            "anyformer_time_between_tokens_seconds", "Between two tokens of a text", buckets=SECONDS, registry=registry
        )
        self._whole = Histogram("anyformer_text_seconds", "From a request to its end", buckets=SECONDS, registry=registry)
        self._read = Counter("anyformer_prompt_tokens", "Tokens of prompts that were taken", registry=registry)
        self._made = Counter("anyformer_generated_tokens", "Tokens that were made", registry=registry)
        self._ended = Counter("anyformer_texts", "Texts that ended, by why", ["reason"], registry=registry)
        self._refused = Counter("anyformer_refusals", "Refused requests, by HTTP's status", ["status"], registry=registry)
        self._lost = Counter("anyformer_log_lines_lost", "Lines of the log that could not be written", registry=registry)
        self._waiting = Gauge("anyformer_waiting_texts", "Texts that wait for room", registry=registry)
        self._running = Gauge("anyformer_running_texts", "Texts that get a token in every step", registry=registry)
        self._held = Gauge("anyformer_state_bytes", "Bytes of decode states, as their tensors say", registry=registry)
        self._foretold = Gauge("anyformer_state_foretold_bytes", "They as worked out from the description", registry=registry)
        self._kept = Gauge("anyformer_prefix_bytes", "Bytes of states behind beginnings of prompts", registry=registry)
        self._reused = Gauge("anyformer_prefix_tokens_reused", "Tokens of prompts that were not read again", registry=registry)
        self._total = Gauge("anyformer_state_total_bytes", "Bytes that decode states may take", registry=registry)

    def came(self, number: int, tokens: int) -> None:
        """A request was taken."""
        self._times[number] = TextTimes(time.perf_counter())
        self._read.inc(tokens)

    def told(self, event: TextEvent) -> None:
        """Something came of a text."""
        now, times = time.perf_counter(), self._times.get(event.number)
        if times is not None and event.token is not None:
            self._made.inc()
            (self._first if times.last is None else self._between).observe(now - (times.last or times.came))
            times.last = now
        if event.last:
            self.ended(event.number, event.reason or "error")

    def ended(self, number: int, reason: str) -> None:
        """A text is over, or was cancelled."""
        times = self._times.pop(number, None)
        if times is not None:
            self._whole.observe(time.perf_counter() - times.came)
            self._ended.labels(reason).inc()

    def log_lost(self) -> None:
        """A line of the log could not be written."""
        self._lost.inc()

    def refused(self, status: int) -> None:
        """A request was not taken."""
        self._refused.labels(str(status)).inc()

    def saw(self, scheduler: Scheduler) -> None:
        """How the engine room stands."""
        states = scheduler.states
        for gauge, value in (
            (self._waiting, scheduler.waiting), (self._running, scheduler.running), (self._held, states.held),
            (self._foretold, states.foretold), (self._total, states.total),
        ):  # fmt: skip
            gauge.set(value)
        if states.prefixes is not None:
            self._kept.set(states.prefixes.held)
            self._reused.set(states.prefixes.reused)

    def text(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self._registry)
