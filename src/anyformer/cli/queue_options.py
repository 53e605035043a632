"""Serving in `anyformer plan`: its options, those of requests that come at random among them, and what they ask."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from anyformer.cli.amounts import duration, frequency, tokens
from anyformer.describe import UserError

if TYPE_CHECKING:
    from anyformer.planning.queues.distributions import Lengths
    from anyformer.planning.queues.engine import EngineRules
    from anyformer.planning.queues.outcome import Limits
    from anyformer.planning.queues.requests import ArrivingRequests

serving_option = partial(typer.Option, rich_help_panel="Serving (with --serve)")
arrival_option = partial(
    typer.Option, rich_help_panel="Requests that come at random (with --serve and --arrivals or --requests)"
)
TEXTS = ("--prompt-tokens", "--output-tokens", "--longest", "--places", "--step-tokens", "--seed")
"""Options that a step of reinforcement learning has too."""
LENGTH = 'tokens, or "uniform(LEAST, MOST)", "exponential(MEAN)", "lognormal(MEDIAN, SIGMA)"'


@dataclass(frozen=True)
class ServingOptions:
    """How many are served, and in which format."""

    users: Annotated[int, serving_option(help="Serve this many users at once.", min=1, metavar="COUNT")] = 1
    weights: Annotated[
        Literal["bf16", "fp8", "int8", "int4"],
        serving_option(help="Store the weights in this number format; products are in bf16.", metavar="bf16|fp8|int8|int4"),
    ] = "bf16"
    engine_memory: Annotated[
        Literal["vllm", "sglang", "llama.cpp", "tensorrt-llm"] | None,
        serving_option(
            help="Say instead what this engine makes of the memory of --gpus accelerators: weights, activations, pages of its "
            "cache, and the texts of --length that these hold.",
            metavar="vllm|sglang|llama.cpp|tensorrt-llm",
        ),
    ] = None


@dataclass(frozen=True)
class ArrivalOptions(ServingOptions):
    """The requests, the rules of engines, and the limits that are to be kept."""

    arrivals: Annotated[
        float | None,
        arrival_option(
            help="Requests that come, as 20/s or 300/min: simulate each, and find the cheapest fleet (or that of --gpus).",
            parser=frequency,
            metavar="RATE",
        ),
    ] = None
    requests: Annotated[
        Path | None,
        arrival_option(
            help="A CSV file of requests with the columns arrived (seconds), prompt and output (tokens), in the place of "
            "--prompt-tokens and --output-tokens; --arrivals changes their rate.",
            metavar="FILE",
        ),
    ] = None
    prompt_tokens: Annotated[str, arrival_option(help=f"Length of prompts: {LENGTH}.", metavar="LENGTH")] = (
        "lognormal(700, 1.1)"
    )
    output_tokens: Annotated[str, arrival_option(help=f"Length of answers: {LENGTH}.", metavar="LENGTH")] = (
        "lognormal(200, 0.8)"
    )
    longest: Annotated[
        int | None,
        arrival_option(
            help="Longest prompt, and longest answer, that is drawn. By default 8k, or half of a position table.",
            parser=tokens,
            metavar="TOKENS",
        ),
    ] = None
    burst: Annotated[
        float,
        arrival_option(
            help="Deviation of the gaps between requests over their mean: 1 for independent requests, 0 for a clock's, more "
            "for bursts.",
            min=0.0,
            metavar="RATIO",
        ),
    ] = 1.0
    shared_prompt: Annotated[
        int, arrival_option(help="Tokens that prompts begin with in common, read once.", min=0, metavar="TOKENS")
    ] = 0
    prompt_groups: Annotated[int, arrival_option(help="Different beginnings that are shared.", min=1, metavar="COUNT")] = 1
    places: Annotated[int, arrival_option(help="Texts of an engine at most.", min=1, metavar="COUNT")] = 256
    step_tokens: Annotated[
        int,
        arrival_option(
            help="New tokens of a step at most; prompts are read in chunks of what is left.", min=1, metavar="TOKENS"
        ),
    ] = 2048
    drafts: Annotated[
        int, arrival_option(help="Propose this many tokens in every step (speculative decoding).", min=0, metavar="COUNT")
    ] = 0
    accepted: Annotated[
        float, arrival_option(help="Chance that a proposed token is accepted.", min=0.0, max=1.0, metavar="CHANCE")
    ] = 0.7
    draft_cost: Annotated[
        float,
        arrival_option(help="Time to propose a token, as a share of a step.", min=0.0, max=0.99, metavar="SHARE"),
    ] = 0.05
    disaggregated: Annotated[
        bool, arrival_option("--disaggregated", help="Read prompts on engines of their own, and send the decode states on.")
    ] = False
    limit_ttft: Annotated[
        float | None,
        arrival_option(help="Time to the first token that requests keep, as 500ms.", parser=duration, metavar="TIME"),
    ] = None
    limit_tpot: Annotated[
        float | None,
        arrival_option(help="Time per further token that requests keep, as 50ms.", parser=duration, metavar="TIME"),
    ] = None
    kept: Annotated[
        float, arrival_option(help="Percent of the requests that keep the limits.", min=1.0, max=100.0, metavar="PERCENT")
    ] = 95.0
    simulated: Annotated[int, arrival_option(help="Requests that are simulated.", min=100, metavar="COUNT")] = 4000
    seed: Annotated[int, arrival_option(help="Draws the requests.", min=0, metavar="SEED")] = 0
    plot: Annotated[
        Path | None,
        arrival_option(help="Draw latencies and goodput against the rate of requests (.png, .svg, .pdf).", metavar="FILE"),
    ] = None

    @property
    def queues(self) -> bool:
        """Whether requests come at random."""
        return self.arrivals is not None or self.requests is not None

    def check(self, *, serves: bool, rolls: bool, length: int | None) -> None:
        """Refuse these options beside another question, and those that say the same twice."""
        own = [each for each in fields(self) if each.name not in ("users", "weights", "engine_memory")]
        given = [f"--{each.name.replace('_', '-')}" for each in own if getattr(self, each.name) != each.default]
        if rolls:
            given = [each for each in given if each not in TEXTS]
        if self.engine_memory is not None and (not serves or self.queues):
            raise UserError("--engine-memory is asked with --serve, and without --arrivals")
        if given and not serves:
            raise UserError(f"{', '.join(given)} is about serving: add --serve, or leave it out")
        if given and not self.queues:
            raise UserError(f"{', '.join(given)} is about requests that come at random: add --arrivals 20/s, say")
        if self.queues and self.users != 1:
            raise UserError("--users serves as many at once, and --arrivals lets them come and go: give one of them")
        if self.queues and length is not None:
            raise UserError(
                "--length is that of users served at once; with --arrivals give --prompt-tokens and --output-tokens"
            )
        if self.requests is not None and (self.shared_prompt or self.burst != 1.0):
            raise UserError("--requests says when each request comes: leave --burst and --shared-prompt out")

    def lengths(self, table: int | None) -> tuple[Lengths, Lengths]:
        """Those of prompts and answers, within half of a position table."""
        from anyformer.planning.queues.distributions import lengths

        most = self.longest or (8192 if table is None else max(1, table // 2))
        return lengths(self.prompt_tokens, most), lengths(self.output_tokens, most)

    @property
    def rules(self) -> EngineRules:
        from anyformer.planning.queues.drafts import Drafts
        from anyformer.planning.queues.engine import EngineRules

        drafts = Drafts(self.drafts, self.accepted, self.draft_cost) if self.drafts else None
        return EngineRules(self.places, self.step_tokens, drafts=drafts)

    @property
    def limits(self) -> Limits:
        from anyformer.planning.queues.outcome import Limits

        return Limits(self.limit_ttft, self.limit_tpot)

    def drawn(self, table: int | None) -> ArrivingRequests:
        """The requests; `table`: positions that the model has, None without a table of them."""
        from anyformer.planning.queues.requests import Traffic, read

        if self.requests is not None:
            found = read(self.requests)
            if table is not None and found.longest > table:
                raise UserError(
                    f"--requests {self.requests}: a request has {found.longest:,} tokens, and the model {table:,} positions"
                )
            found = found if self.arrivals is None else found.at_rate(self.arrivals)
        else:
            assert self.arrivals is not None, "one of both is given"
            traffic = Traffic(self.arrivals, *self.lengths(table), self.burst, self.shared_prompt, self.prompt_groups)
            found = traffic.draw(self.simulated, self.seed).at_rate(self.arrivals)
        drafts = self.rules.drafts
        return found if drafts is None else drafts.of(found, self.seed)
