"""The catalogue read as a whole: its mechanisms, who has which since when, trends, and pages by topic with their sources."""

from anyformer.atlas.data import atlas_data, topic_data
from anyformer.atlas.glossary import GlossaryEntry, explained, glossary
from anyformer.atlas.naming import mechanisms_called, mechanisms_with
from anyformer.atlas.topic import Topic, topic, topic_called, topics
from anyformer.atlas.topic_page import mechanism_item, studied_mechanism, topic_page

__all__ = [
    "GlossaryEntry",
    "Topic",
    "atlas_data",
    "explained",
    "glossary",
    "mechanism_item",
    "mechanisms_called",
    "mechanisms_with",
    "studied_mechanism",
    "topic",
    "topic_called",
    "topic_data",
    "topic_page",
    "topics",
]
