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
from anyformer.evaluation.likelihood import BATCH_TOKENS, Request, prefix_of, scores
from anyformer.evaluation.subject import Subject
from anyformer.generation import Sampling, stream
from anyformer.text import DataError
from anyformer.text.chat import Chat, named_template
from anyformer.text.chat.rendering import ChatWriter
from anyformer.text.marked import encode_marked

NEW_TOKENS = 256
"""Tokens that are generated at most where a task does not say."""
INERT = {"do_sample": None, "num_beams": 1, "use_cache": True}
"""Keys of generation that change nothing at this value (None: at any)."""


_HERE = "\uf8ff"
"""A letter for private use that marks the end of a text."""


class AnyformerLM(TemplateLM):  # type: ignore[misc]
    """A model that scores and continues texts for the harness's tasks, as its own `HFLM` does for models of transformers.

    A text of more than T positions loses its beginning. Texts are tokenised with what the tokenizer puts around them
    (`<s>`), as there.
    """

    def __init__(self, subject: Subject, most: int = BATCH_TOKENS) -> None:
        super().__init__()
        self._subject, self._most = subject, most
        self.max_length = subject.length

    @property
    def eot_token_id(self) -> int:
        return self._subject.text.end

    @property
    def prefix_token_id(self) -> int:
        """What stands before a text without a context: the token that begins one, else the one that ends one."""
        return prefix_of(self._subject.text)

    @property
    def tokenizer_name(self) -> str:
        return self._subject.text.digest

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **kwargs: Any) -> list[int]:
        """The tokens of a text, in which special tokens are spelt, and what the tokenizer puts around it unless the text begins
        with its first token, as a chat does."""
        tokenizer = self._subject.text
        tokens = encode_marked(tokenizer, string)
        begins = string.startswith(tokenizer.decode([self.prefix_token_id], special=True))
        framed = not begins if add_special_tokens is None else add_special_tokens
        return tokenizer.framed(tokens).tokens if framed else tokens

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        """The template of that name, or the usual one; None where none is asked for."""
        if chat_template is False or chat_template is None:
            return None
        return named_template(self._subject.text, None if chat_template is True else chat_template)

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """The text of a chat up to where the next answer begins, or else to the end of what was said last, whose white space
        counts if the template keeps it."""
        if not add_generation_prompt:
            *before, last = chat_history
            chat_history = [*before, {**last, "content": f"{last['content']}{_HERE} "}]
        try:
            written, _ = ChatWriter.of(self._subject.text, Chat(chat_history)).marked(prompt=add_generation_prompt)
        except DataError:  # some templates know no system, and the harness leaves it out then
            rest = [turn for turn in chat_history if turn["role"] != "system"]
            written, _ = ChatWriter.of(self._subject.text, Chat(rest)).marked(prompt=add_generation_prompt)
        if add_generation_prompt:
            return written
        place = written.rfind(_HERE)
        if place < 0:
            raise UserError("the chat template leaves out the last message, which therefore cannot be continued")
        return written[:place] if written.startswith(" ", place + 1) else written[:place].rstrip()

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
                self._subject.model, asked, self.max_length, most=self._most, progress=lambda done: bar.update(done - bar.n),
                reader=self._subject.reader,
            )  # fmt: skip
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
                settings = ContinuationRequest.of(requests[numbers[0]].args[1])
                for batch, prompts in self._batches(requests, numbers, settings.most):
                    for row, piece in stream(
                        self._subject.model, self._subject.text, prompts, max_tokens=settings.most,
                        sampling=settings.sampling, stop=settings.until, places=self._subject.places,
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


class ContinuationRequest:
    """How the harness wants texts continued: where they end, their greatest length, and the choice of tokens."""

    def __init__(self, until: tuple[str, ...], most: int, sampling: Sampling) -> None:
        self.until, self.most, self.sampling = until, most, sampling

    @classmethod
    def of(cls, settings: dict[str, Any]) -> ContinuationRequest:
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
