"""`ReplyForm`: how a model's replies are read, named or found out by its chat template."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anyformer.describe import UserError, did_you_mean
from anyformer.text.chat.conversation import Chat
from anyformer.text.chat.program import one_moment
from anyformer.text.chat.rendering import ChatWriter
from anyformer.text.errors import DataError
from anyformer.text.replies.authors import AuthorsReader, authors_template
from anyformer.text.replies.calls import CallFormat, CallReader
from anyformer.text.replies.json_calls import LlamaJson, MistralJson, TaggedJson
from anyformer.text.replies.parts import PlainReader, ReplyReader, ToolCall, parameters_of, told
from anyformer.text.replies.reasoning import ReasoningFormat, ReasoningReader
from anyformer.text.replies.written_calls import DeepSeekCalls, PythonCalls, XmlCalls
from anyformer.text.tokenizers import Tokenizer

CALL_FORMATS: Mapping[str, CallFormat] = {
    "hermes": TaggedJson(),
    "qwen-xml": XmlCalls(),
    "mistral": MistralJson(),
    "llama": LlamaJson(),
    "deepseek": DeepSeekCalls(),
    "pythonic": PythonCalls(),
}
REASONING_FORMATS: Mapping[str, ReasoningFormat] = {
    "think": ReasoningFormat("<think>", "</think>"),
    "mistral": ReasoningFormat("[THINK]", "[/THINK]"),
    "seed": ReasoningFormat("<seed:think>", "</seed:think>"),
}
NONE, AUTO, AUTHORS = "none", "auto", "authors"
"""No format; the one that is certain; the tokenizer's own `response_template`."""
_ASKED = {"role": "user", "content": "Ask both."}
_TOOL = {
    "type": "function",
    "function": {
        "name": "look_up",
        "description": "Look up a word.",
        "parameters": {"type": "object", "properties": {"word": {"type": "string"}, "count": {"type": "integer"}}},
    },
}
_GIVEN: Sequence[Mapping[str, Any]] = ({"word": 'a "b" {c}', "count": 3}, {"word": "7", "count": 4})
_THOUGHT, _SAID = "It is one of two.", "The first."


@dataclass(frozen=True)
class ReplyForm:
    """`calls` and `reasoning`: the formats, None where text stays text; `authors`: the tokenizer's own `response_template`."""

    calls: CallFormat | None = None
    reasoning: ReasoningFormat | None = None
    authors: Mapping[str, Any] | None = None

    def reader(self, prompt: str = "", tools: Sequence[Mapping[str, Any]] = ()) -> ReplyReader:
        """What reads the reply to a prompt, calls of `tools` among it."""
        if self.authors is not None:
            return AuthorsReader(self.authors, prompt, tools)
        rest = CallReader(self.calls, parameters_of(tools)) if self.calls is not None and tools else PlainReader()
        if self.reasoning is None:
            return rest
        return ReasoningReader(self.reasoning, rest, begun=self.reasoning.begun(prompt))

    def shown(self, tokenizer: Tokenizer) -> tuple[int, ...]:
        """The special tokens that the reply is read by."""
        special = tokenizer.special_tokens
        if self.authors is not None:
            return tuple(special.values())
        reasoning = () if self.reasoning is None else self.reasoning.words
        calls = () if self.calls is None else (*self.calls.words, *self.calls.first, *self.calls.spelt)
        return tuple(special[word] for word in (*reasoning, *calls) if word in special)


def form_of(tokenizer: Tokenizer, calls: str = AUTO, reasoning: str = AUTO) -> ReplyForm:
    """The form of replies by the names of formats; `auto`: the tokenizer's `response_template`, else what its chat template
    writes of calls and reasoning, read back exactly by one format alone."""
    own = authors_template(tokenizer)
    if AUTHORS in (calls, reasoning) and own is None:
        raise UserError("the tokenizer has no response_template: name a format, or none")
    if own is not None and {calls, reasoning} <= {AUTO, AUTHORS}:
        return ReplyForm(authors=own)
    named_calls = _found_calls(tokenizer) if calls == AUTO else _named(calls, CALL_FORMATS, "--tool-format")
    named_reasoning = (
        _found_reasoning(tokenizer) if reasoning == AUTO else _named(reasoning, REASONING_FORMATS, "--reasoning-format")
    )
    return ReplyForm(named_calls, named_reasoning)


def _named(name: str, formats: Mapping[str, Any], option: str) -> Any:
    if name == NONE:
        return None
    if name not in formats:
        known = [AUTO, NONE, AUTHORS, *formats]
        raise UserError(f"{option} {name} is no format{did_you_mean(name, known)}: give one of {', '.join(known)}")
    return formats[name]


def _found_calls(tokenizer: Tokenizer) -> CallFormat | None:
    """The one format that reads the calls that the template writes, behind its reasoning."""
    reasoning = _found_reasoning(tokenizer)
    for given in (_GIVEN, _GIVEN[:1]):
        wanted = [ToolCall("look_up", _text(each)) for each in given]
        for text in _written_calls(tokenizer, given):
            found = [form for form in CALL_FORMATS.values() if _reads(ReplyForm(form, reasoning), text, wanted)]
            if len(found) == 1:
                return found[0]
    return None


def _reads(form: ReplyForm, text: str, wanted: Sequence[ToolCall]) -> bool:
    reader = form.reader(tools=[_TOOL])
    found = told([reader.push(text), reader.finish()])
    return list(found.calls) == list(wanted) and not found.content.strip()


def _text(table: Mapping[str, Any]) -> str:
    return json.dumps(table, ensure_ascii=False)


def _written_calls(tokenizer: Tokenizer, given: Sequence[Mapping[str, Any]]) -> list[str]:
    """A reply of calls as the template writes it, with arguments as tables and as texts, where it takes them."""
    found = []
    for arguments in (given, [_text(each) for each in given]):
        calls = [
            {"id": f"call{number:05}", "type": "function", "function": {"name": "look_up", "arguments": each}}
            for number, each in enumerate(arguments)
        ]
        text = _reply(tokenizer, {"role": "assistant", "content": "", "tool_calls": calls})
        if text is not None:
            found.append(text)
    return found


def _found_reasoning(tokenizer: Tokenizer) -> ReasoningFormat | None:
    """The one format that reads the reasoning that the template writes, or that it begins itself."""
    asked = _asked(tokenizer)
    begun = [form for form in REASONING_FORMATS.values() if asked is not None and form.begun(asked)]
    if len(begun) == 1:
        return begun[0]
    text = _reply(tokenizer, {"role": "assistant", "content": _SAID, "reasoning_content": _THOUGHT})
    found = []
    for form in REASONING_FORMATS.values() if text is not None else ():
        reader = ReasoningReader(form)
        part = told([reader.push(text or ""), reader.finish()])
        if (part.reasoning, part.content.strip()) == (_THOUGHT, _SAID):
            found.append(form)
    return found[0] if len(found) == 1 else None


def _asked(tokenizer: Tokenizer) -> str | None:
    try:
        with one_moment():
            return ChatWriter.of(tokenizer, Chat([_ASKED])).text([_ASKED], prompt=True)
    except DataError:
        return None


def _reply(tokenizer: Tokenizer, message: Mapping[str, Any]) -> str | None:
    """What the template writes of a reply behind the prompt that asks for it, up to the token that ends it; None where it
    writes no such chat."""
    try:
        with one_moment():
            writer = ChatWriter.of(tokenizer, Chat([_ASKED, message], tools=[_TOOL]))
            asked = writer.text([_ASKED], prompt=True)
            text = writer.text(writer.chat.messages)
    except DataError:
        return None
    if asked is None or text is None or not text.startswith(asked):
        return None
    reply = text[len(asked) :].rstrip()
    ended = True
    while ended:
        word = next((word for word in tokenizer.special_tokens if word and reply.endswith(word)), None)
        ended = word is not None and word not in _WORDS
        reply = reply.removesuffix(word or "").rstrip() if ended else reply
    return reply


_WORDS = frozenset(word for form in CALL_FORMATS.values() for word in (*form.words, *form.spelt)) | {
    word for form in REASONING_FORMATS.values() for word in form.words
}
