"""The states of a model and of its adapters, and of the same models with the weights that they had before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from anyformer.describe import UserError
from anyformer.model.transformer import Transformer
from anyformer.serving.own_states import OwnStates
from anyformer.serving.prompt_prefixes import PromptPrefixes
from anyformer.serving.reading import PromptReading
from anyformer.serving.request import ServedRequest
from anyformer.serving.states import TextStates


@dataclass
class SeveralStates:
    """`base`: those of the model; `adapters`: by name those of the model with an adapter, `total` bytes all together.

    `renew` puts others in their place: a text goes on in those in which it began, and these are freed when none does.
    """

    base: TextStates
    adapters: Mapping[str, OwnStates] = field(default_factory=dict)
    _of: dict[int, TextStates] = field(default_factory=dict)
    """Where each text goes on."""

    @property
    def model(self) -> Transformer:
        return self.base.model

    @property
    def prefixes(self) -> PromptPrefixes | None:
        return self.base.prefixes

    @property
    def places(self) -> int | None:
        return self.base.places

    @property
    def total(self) -> int:
        return self.base.total + max((each.total for each in self.adapters.values()), default=0)

    @property
    def foretold(self) -> int:
        return sum(each.foretold for each in self._all())

    @property
    def held(self) -> int:
        return sum(each.held for each in self._all())

    def renew(self, base: TextStates, adapters: Mapping[str, OwnStates]) -> None:
        """Texts begin in other states from now on."""
        self.base, self.adapters = base, adapters

    def check(self, request: ServedRequest) -> None:
        self._states(request).check(request)

    def fits(self, request: ServedRequest) -> bool:
        states = self._states(request)
        beside = sum(each.foretold for each in self.adapters.values() if each is not states) if request.adapter else 0
        return states.fits(request) and (not beside or self.adapters[request.adapter].fits_beside(request, beside))

    def enter(self, number: int, request: ServedRequest) -> PromptReading:
        states = self._states(request)
        reading = states.enter(number, request)
        self._of[number] = states
        return reading

    def advance(self, tokens: Mapping[int, int]) -> dict[int, Tensor]:
        found: dict[int, Tensor] = {}
        for states in {id(each): each for each in map(self._of.__getitem__, tokens)}.values():
            found |= states.advance({number: token for number, token in tokens.items() if self._of[number] is states})
        return found

    def leave(self, number: int) -> None:
        self._of.pop(number).leave(number)

    def _states(self, request: ServedRequest) -> TextStates:
        if not request.adapter:
            return self.base
        if request.adapter not in self.adapters:
            raise UserError(f"the adapter {request.adapter} is served no more: ask for another model")
        return self.adapters[request.adapter]

    def _all(self) -> list[TextStates]:
        """All states, also those in which older texts go on."""
        every: list[TextStates] = [self.base, *self.adapters.values(), *self._of.values()]
        return list({id(each): each for each in every}.values())
