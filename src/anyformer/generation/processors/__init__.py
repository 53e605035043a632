"""What changes scores before a token is chosen: one small part each, and the order in which they work."""

from anyformer.generation.processors.base import Processor, Warper
from anyformer.generation.processors.biases import BadWords, SequenceBias, Suppress, SuppressFirst, WithinVocabulary
from anyformer.generation.processors.forced import ForcedFirst, ForcedLast
from anyformer.generation.processors.lengths import LengthDecay, MinLength, MinNewTokens
from anyformer.generation.processors.ngrams import EncoderNoRepeatNGrams, NoRepeatNGrams
from anyformer.generation.processors.numerics import Normalise, RemoveInvalid
from anyformer.generation.processors.penalties import (
    EncoderRepetitionPenalty,
    FrequencyPenalty,
    PresencePenalty,
    RepetitionPenalty,
)
from anyformer.generation.processors.warpers import (
    EpsilonCutoffWarper,
    EtaCutoffWarper,
    MinPWarper,
    TemperatureWarper,
    TopHWarper,
    TopKWarper,
    TopPWarper,
    TypicalPWarper,
)

ORDER: tuple[type[Processor], ...] = (
    WithinVocabulary, SequenceBias, EncoderRepetitionPenalty, RepetitionPenalty, FrequencyPenalty, PresencePenalty,
    NoRepeatNGrams, EncoderNoRepeatNGrams, BadWords, MinLength, MinNewTokens, ForcedFirst, ForcedLast, RemoveInvalid,
    LengthDecay, Suppress, SuppressFirst, Processor, TemperatureWarper, TopHWarper, TopKWarper, TopPWarper, MinPWarper,
    TypicalPWarper, EpsilonCutoffWarper, EtaCutoffWarper, Warper, Normalise,
)  # fmt: skip
"""The order of transformers; penalties of frequency and presence, which it lacks, stand behind that of repetitions, as in vLLM.

A processor defined elsewhere works where its base class stands.
"""


def placed(part: Processor) -> int:
    """The place of a part in the order."""
    return next(ORDER.index(each) for each in type(part).__mro__ if each in ORDER)


__all__ = [
    "ORDER",
    "BadWords",
    "EncoderNoRepeatNGrams",
    "EncoderRepetitionPenalty",
    "EpsilonCutoffWarper",
    "EtaCutoffWarper",
    "ForcedFirst",
    "ForcedLast",
    "FrequencyPenalty",
    "LengthDecay",
    "MinLength",
    "MinNewTokens",
    "MinPWarper",
    "NoRepeatNGrams",
    "Normalise",
    "PresencePenalty",
    "Processor",
    "RemoveInvalid",
    "RepetitionPenalty",
    "SequenceBias",
    "Suppress",
    "SuppressFirst",
    "TemperatureWarper",
    "TopHWarper",
    "TopKWarper",
    "TopPWarper",
    "TypicalPWarper",
    "Warper",
    "WithinVocabulary",
    "placed",
]
