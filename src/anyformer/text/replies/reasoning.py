"""What a model writes before it answers, between two words."""

from __future__ import annotations

from dataclasses import dataclass

from anyformer.text.replies.parts import PlainReader, ReplyPart, ReplyReader, beginning


@dataclass(frozen=True)
class ReasoningFormat:
    """The words around it. A template may write the first of them itself, as the last of a prompt."""

    opening: str
    closing: str

    @property
    def words(self) -> tuple[str, ...]:
        """What it is told by."""
        return self.opening, self.closing

    def begun(self, prompt: str) -> bool:
        """Whether a prompt ends within reasoning."""
        return prompt.rstrip().endswith(self.opening)


class ReasoningReader:
    """Reasoning up to its closing word, without blank lines around it; what follows is read by `rest`.

    A reply that does not begin with the opening word has none, unless its prompt has `begun` it.
    """

    def __init__(self, form: ReasoningFormat, rest: ReplyReader | None = None, *, begun: bool = False) -> None:
        self._form, self._rest = form, PlainReader() if rest is None else rest
        self._held, self._inside, self._done = "", begun, False
        self._said = False
        """Whether something was reasoned yet."""
        self._trim = False
        """Whether blanks are left out until something is said."""

    def push(self, text: str) -> ReplyPart:
        return self._read(text, final=False)

    def finish(self) -> ReplyPart:
        left, end = self._read("", final=True), self._rest.finish()
        return ReplyPart(left.content + end.content, left.reasoning, (*left.calls, *end.calls))

    def _read(self, text: str, *, final: bool) -> ReplyPart:
        self._held += text
        if not self._inside and not self._done:
            self._open(final)
        reasoning = self._reasoned(final) if self._inside else ""
        if not self._done:
            return ReplyPart(reasoning=reasoning)
        said, self._held = self._held, ""
        if self._trim:
            said = said.lstrip()
            self._trim = not said
        part = self._rest.push(said) if said else ReplyPart()
        return ReplyPart(part.content, reasoning, part.calls)

    def _open(self, final: bool) -> None:
        """Whether the reply begins with reasoning, once that is certain."""
        said, opening = self._held.lstrip(), self._form.opening
        if said.startswith(opening):
            self._held, self._inside = said[len(opening) :], True
        elif final or not opening.startswith(said):
            self._done = True

    def _reasoned(self, final: bool) -> str:
        """The reasoning that is certain, without blanks that may stand at its end."""
        if not self._said:
            self._held = self._held.lstrip()
        found = self._held.find(self._form.closing)
        if found >= 0:
            text, self._held = self._held[:found].rstrip(), self._held[found + len(self._form.closing) :]
            self._inside, self._done, self._trim = False, True, True
            return text
        certain = len(self._held) if final else len(self._held) - beginning(self._held, [self._form.closing])
        text = self._held[:certain].rstrip()
        self._held = "" if final else self._held[len(text) :]
        self._said = self._said or bool(text)
        return text
