"""Kinds of data, one per file; a class enters the registry of `Data` by being defined."""

from anyformer.data.kinds.answers import AnswerSpans
from anyformer.data.kinds.captions import Captions
from anyformer.data.kinds.chat_records import ChatRecords, Dialogue
from anyformer.data.kinds.chats import Chats
from anyformer.data.kinds.completions import Completions
from anyformer.data.kinds.image_masks import ImageMasks
from anyformer.data.kinds.image_questions import QuestionsAboutImages
from anyformer.data.kinds.image_records import ImageRecords
from anyformer.data.kinds.image_texts import ImageTexts
from anyformer.data.kinds.images import Images
from anyformer.data.kinds.judgements import Judgements
from anyformer.data.kinds.labelled import Labelled
from anyformer.data.kinds.measured_images import MeasuredImages
from anyformer.data.kinds.mixture import Component, Mixture
from anyformer.data.kinds.pairs import TextPairs
from anyformer.data.kinds.preferences import Preferences
from anyformer.data.kinds.prompts import Prompts
from anyformer.data.kinds.scored import Scored
from anyformer.data.kinds.similar import Similar
from anyformer.data.kinds.sound_questions import QuestionsAboutSounds
from anyformer.data.kinds.sound_texts import SoundTexts
from anyformer.data.kinds.sounds import Sounds
from anyformer.data.kinds.speech import Speech
from anyformer.data.kinds.step_labels import StepLabels
from anyformer.data.kinds.unlabelled_images import UnlabelledImages
from anyformer.data.kinds.vectors import Arrays, Pixels, Vectors
from anyformer.data.kinds.word_labels import WordLabels

__all__ = [
    "AnswerSpans",
    "Arrays",
    "Captions",
    "ChatRecords",
    "Chats",
    "Completions",
    "Component",
    "Dialogue",
    "ImageMasks",
    "ImageRecords",
    "ImageTexts",
    "Images",
    "Judgements",
    "Labelled",
    "MeasuredImages",
    "Mixture",
    "Pixels",
    "Preferences",
    "Prompts",
    "QuestionsAboutImages",
    "QuestionsAboutSounds",
    "Scored",
    "Similar",
    "SoundTexts",
    "Sounds",
    "Speech",
    "StepLabels",
    "TextPairs",
    "UnlabelledImages",
    "Vectors",
    "WordLabels",
]
