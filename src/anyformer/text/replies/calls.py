"""`CallFormat`: how calls of functions stand in a reply, and `CallReader`, which takes them out of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anyformer.text.replies.grammar import Spelling
from anyformer.text.replies.parts import ReplyPart, ToolCall, beginning


@dataclass(frozen=True)
class CallFormat:
    """`words`: each begins calls wherever it stands; `first`: it does where the reply begins with it. `spelt`: further words of
    it, which may be special tokens."""

    words: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    spelt: tuple[str, ...] = ()

    def end(self, text: str) -> int | None:
        """Where calls end that `text` begins with; None while that is not certain, whatever else comes."""
        raise NotImplementedError

    def calls(self, text: str, tools: Mapping[str, Mapping[str, Any]]) -> list[ToolCall] | None:
        """The calls of a text that `end` has cut, or that ends with the reply; None where it is none. `tools`: of each function
        its parameters by name, with their schemas."""
        raise NotImplementedError

    def grammar(self, tools: Sequence[Mapping[str, Any]], said: Spelling, *, single: bool) -> str | None:
        """The rules of an `answer` that calls some of the functions, or a `single` one; None where the format has none."""
        return None


@dataclass
class CallReader:
    """The calls of a reply, each when it is whole, and its text without blanks around them. What looks like a call and cannot
    be read as one is text."""

    form: CallFormat
    tools: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    _held: str = ""
    _begun: bool = False
    """Whether something was said or called."""
    _called: bool = False

    def push(self, text: str) -> ReplyPart:
        return self._read(text, final=False)

    def finish(self) -> ReplyPart:
        return self._read("", final=True)

    def _read(self, text: str, *, final: bool) -> ReplyPart:
        self._held += text
        content, calls = "", list[ToolCall]()
        while True:
            begin, word = self._opening(final)
            if not word:
                content += self._say(begin, ends=final)
                return ReplyPart(content, calls=tuple(calls))
            content += self._say(begin)
            behind = self._held.lstrip()
            cut = self.form.end(behind)
            if cut is None and not final:
                return ReplyPart(content, calls=tuple(calls))
            found = self._called_by(behind[:cut], word)
            if found is None:
                content += self._say(len(self._held) - len(behind) + len(word), whole=True)
                continue
            calls += found
            self._begun = self._called = True
            self._held = behind[len(behind) if cut is None else cut :]

    def _called_by(self, text: str, word: str) -> list[ToolCall] | None:
        calls = self.form.calls(text, self.tools)
        if calls and word in self.form.words:
            return calls
        # Without a word of its own, an answer may look like a call.
        return calls if calls and all(call.name in self.tools for call in calls) else None

    def _opening(self, final: bool) -> tuple[int, str]:
        """Where calls begin and by which word; without one, the characters that are certain to be none."""
        said = self._held.lstrip()
        if not self._begun:
            for word in self.form.first:
                if said.startswith(word):
                    return len(self._held) - len(said), word
        places = [(place, word) for word in self.form.words if (place := self._held.find(word)) >= 0]
        if places:
            return min(places)
        may = 0 if final else beginning(self._held, self.form.words)
        if not final and not self._begun and any(word.startswith(said) for word in self.form.first):
            may = len(self._held)
        return len(self._held) - may, ""

    def _say(self, count: int, *, ends: bool = False, whole: bool = False) -> str:
        """The first characters that are held, as text, without blanks that stand beside a call. `ends`: no more text comes;
        `whole`: they are no call's."""
        text = self._held[:count]
        if not whole and not (ends and not self._called):
            text = text.rstrip()
        if self._called and not text.strip():
            return ""
        self._held = self._held[len(text) :]
        self._begun = self._begun or bool(text.strip())
        return text
