"""Any decoder as a model of lm-evaluation-harness (extra `eval`), whose package this module needs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import TemplateLM
from lm_eval.models.utils import normalize_gen_kwargs
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window
from tqdm import tqdm

from anyformer.describe import UserError
from anyformer.evaluation.likelihood import BATCH_TOKENS, Request, opening, scores
from anyformer.evaluation.subject import Subject
from anyformer.generation import Sampling, stream

NEW_TOKENS = 256
"""Tokens that are generated at most where a task does not say."""
INERT = {"do_sample": None, "num_beams": 1, "use_cache": True}
"""Keys of generation that change nothing at this value (None: at any)."""


class AnyformerLM(TemplateLM):  # type: ignore[misc]
    """A model that scores and continues texts for the harness's tasks, as its own `HFLM` does for models of transformers.

    A text of more than T positions loses its beginning. Texts are tokenised with what the tokenizer's template puts before
    them (`<s>`), as there.
    """

    def __init__(self, subject: Subject, most: int = BATCH_TOKENS) -> None:
        super().__init__()
        self._subject, self._most = subject, most
        self._opening = opening(subject.text)
        self.max_length = subject.length

    @property
    def eot_token_id(self) -> int:
        return self._subject.text.end

    @property
    def prefix_token_id(self) -> int:
        """What stands before a text without a context: the token that starts one, else the one that ends one."""
        start = self._subject.text.find("start")
        return self.eot_token_id if start is None else start

    @property
    def tokenizer_name(self) -> str:
        return self._subject.text.digest

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **kwargs: Any) -> list[int]:
        begin = () if add_special_tokens is False else self._opening
        return [*begin, *self._subject.text.encode(string)]

    def apply_chat_template(self, chat_history: Any, add_generation_prompt: bool = True) -> str:
        raise UserError("tasks are given to the model as plain text: leave the chat template out")

    def _loglikelihood_tokens(
        self, requests: Sequence[tuple[Any, list[int], list[int]]], disable_tqdm: bool = False, **kwargs: Any
    ) -> list[tuple[float, bool]]:
        found = self._scores([(context, continuation) for _, context, continuation in requests], disable_tqdm)
        for (said, _, _), answer in zip(requests, found, strict=True):
            if said is not None:
                self.cache_hook.add_partial("loglikelihood", said, answer)
        return found

    def _scores(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], quiet: bool) -> list[tuple[float, bool]]:
        asked = [Request(tuple(context), tuple(continuation)) for context, continuation in pairs]
        with tqdm(total=len(asked), disable=quiet, desc="log-likelihoods") as bar:
            found = scores(
                self._subject.model, asked, self.max_length, most=self._most, progress=lambda done: bar.update(done - bar.n)
            )
        return [(each.log_likelihood, each.greedy) for each in found]

    def loglikelihood_rolling(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[float]:
        """The log-likelihood of whole texts: windows of T tokens side by side, each after one token of the last one."""
        windows: list[tuple[list[int], list[int]]] = []
        ends = [0]
        for request in requests:
            (text,) = request.args
            cut = get_rolling_token_windows(
                token_list=self.tok_encode(text), prefix_token=self.prefix_token_id, max_seq_len=self.max_length, context_len=1
            )
            windows += map(make_disjoint_window, cut)
            ends.append(len(windows))
        each = [log_likelihood for log_likelihood, _ in self._scores(windows, disable_tqdm)]
        totals = [sum(each[first:last]) for first, last in pairwise(ends)]
        for request, total in zip(requests, totals, strict=True):
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, total)
        return totals

    def generate_until(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[str]:
        """The continuations, in batches of requests of like settings and about one length."""
        texts = [""] * len(requests)
        groups: dict[str, list[int]] = {}
        for number, request in enumerate(requests):
            groups.setdefault(repr(sorted(request.args[1].items())), []).append(number)
        with tqdm(total=len(requests), disable=disable_tqdm, desc="continuations") as bar:
            for numbers in groups.values():
                settings = Asked.of(requests[numbers[0]].args[1])
                for batch, prompts in self._batches(requests, numbers, settings.most):
                    for row, piece in stream(
                        self._subject.model, self._subject.text, prompts, max_tokens=settings.most,
                        sampling=settings.sampling, stop=settings.until,
                    ):  # fmt: skip
                        texts[batch[row]] += piece
                    for number in batch:
                        self.cache_hook.add_partial("generate_until", requests[number].args, texts[number])
                    bar.update(len(batch))
        return texts

    def _batches(
        self, requests: Sequence[Instance], numbers: Sequence[int], most: int
    ) -> list[tuple[list[int], list[list[int]]]]:
        """(numbers, prompts) of batches, the longest first; a prompt that leaves no room for `most` tokens is cut."""
        room = self.max_length - most
        if room < 1:
            raise UserError(
                f"the task asks for {most:,} new tokens, and the model reads {self.max_length:,} in all: set a smaller "
                "max_gen_toks"
            )
        prompts = {number: self.tok_encode(requests[number].args[0])[-room:] or [self.prefix_token_id] for number in numbers}
        order = sorted(numbers, key=lambda number: -len(prompts[number]))
        batches = []
        while order:
            size = max(1, self._most // (len(prompts[order[0]]) + most))
            batch, order = order[:size], order[size:]
            batches.append((batch, [prompts[number] for number in batch]))
        return batches


class Asked:
    """How a task wants texts continued."""

    def __init__(self, until: tuple[str, ...], most: int, sampling: Sampling) -> None:
        self.until, self.most, self.sampling = until, most, sampling

    @classmethod
    def of(cls, settings: dict[str, Any]) -> Asked:
        """From the words of the harness; `UserError` for one that would change the text and is not known here."""
        given = dict(normalize_gen_kwargs(settings, NEW_TOKENS))
        until = given.pop("until", None) or []
        most, temperature = int(given.pop("max_gen_toks")), float(given.pop("temperature", 0.0) or 0.0)
        chosen = {key: given.pop(key) for key in ("top_k", "top_p", "min_p") if given.get(key) is not None}
        for key, value in given.items():
            if key not in INERT or (INERT[key] is not None and value != INERT[key]):
                raise UserError(f"generation_kwargs: {key} = {value!r} is not known here; take it out of the task")
        sampled = chosen if temperature else {}
        stops = (until,) if isinstance(until, str) else tuple(until)
        return cls(tuple(text for text in stops if text), most, Sampling(temperature=temperature, **sampled))
