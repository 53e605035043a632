"""Kinds of records, one in each file; a class enters the registry of `Data` by being defined."""

from anyformer.data.kinds.chats import Chats, Dialogue
from anyformer.data.kinds.labelled import Labelled
from anyformer.data.kinds.pairs import Pairs
from anyformer.data.kinds.preferences import Preferences
from anyformer.data.kinds.prompts import Prompts

__all__ = ["Chats", "Dialogue", "Labelled", "Pairs", "Preferences", "Prompts"]
