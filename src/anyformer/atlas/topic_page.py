"""The page of a topic: sections of sentences, each sentence with its source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from anyformer.atlas.asked_sources import NotAsked, StudyVerdicts, asking, studies_of
from anyformer.atlas.catalogue_sources import CatalogueQuery, LatestShares
from anyformer.atlas.documentation import Documentation, documented
from anyformer.atlas.holders import holders
from anyformer.atlas.measured import findings, studies
from anyformer.atlas.measured_sources import ClaimSource, StudyBudget, StudyFinding, StudyNote
from anyformer.atlas.mechanism import Mechanism
from anyformer.atlas.pricing import Priced
from anyformer.atlas.registered import RegisteredKind, kinds
from anyformer.atlas.source import Sentence
from anyformer.atlas.topic import Topic, mechanisms
from anyformer.atlas.written_documentation import WrittenDocumentation

PARTS = "anyformer.parts"


@dataclass(frozen=True)
class TopicItem:
    """One matter of a section: a mechanism, a question, a change, with what is said of it."""

    title: str
    sentences: tuple[Sentence, ...]
    note: str = ""
    """The papers whose findings a question asks again."""
    mechanism: Mechanism | None = None
    since: int | None = None


@dataclass(frozen=True)
class TopicSection:
    """A heading, and the matters below it."""

    title: str
    items: tuple[TopicItem, ...]


@dataclass(frozen=True)
class TopicPage:
    """The page of a topic."""

    topic: Topic
    sections: tuple[TopicSection, ...]

    @property
    def sentences(self) -> Iterator[Sentence]:
        """Every sentence of the page."""
        for section in self.sections:
            for item in section.items:
                yield from item.sentences


@cache
def topic_page(topic: Topic) -> TopicPage:
    """The page of a topic: an answer from studies where one is asked for, what there is, costs, studies, and claims."""
    made = (
        TopicSection("In short", tuple(answers(topic))),
        TopicSection("What it is, and who has it since when", tuple(_mechanisms(topic))),
        TopicSection("Every kind", tuple(_registered(topic))),
        TopicSection("Parts that no model here has", tuple(_unused(topic))),
        TopicSection("What it costs", tuple(_costs(topic))),
        TopicSection("Which studies ask about it", tuple(asked(topic))),
        TopicSection("What papers found, and what our studies measured", tuple(_studies(topic))),
        TopicSection("What lecture notes claim, tested", tuple(_claims(topic))),
    )
    return TopicPage(topic, tuple(section for section in made if section.items))


def answers(topic: Topic) -> Iterator[TopicItem]:
    """What studies answer to the topic's question, and the latest shares of its mechanisms."""
    for name in topic.lengths:
        noted = [StudyNote(name)] if studies()[name].note else []
        said = (StudyBudget(name, beyond=True), *noted, StudyBudget(name))
        yield TopicItem(studies()[name].title, tuple(map(Sentence.of, said)))
    for part in topic.reasons:
        yield TopicItem(f"Why {part} holds", (Sentence.of(Documentation(part)),))
    if any(each.trend for each in topic.mechanisms):
        yield TopicItem("", (Sentence.of(LatestShares(topic.name)),))


def _mechanisms(topic: Topic) -> Iterator[TopicItem]:
    """Mechanisms by the year in which the catalogue has them first, then matters that no single part is."""
    yield from map(mechanism_item, sorted(topic.mechanisms, key=lambda each: holders(each).since or 0))
    for matter in topic.matters:
        doing = [each for each in topic.mechanisms if each.name in matter.mechanisms]
        found = [source for each in doing for source in (Documentation(each.part), CatalogueQuery(each))]
        yield TopicItem(matter.title, tuple(map(Sentence.of, (*map(WrittenDocumentation, matter.written), *found))))


def mechanism_item(mechanism: Mechanism) -> TopicItem:
    """What a mechanism is, and who has it since when."""
    said = [Documentation(mechanism.part, mechanism.field)] if mechanism.part else []
    sentences = tuple(map(Sentence.of, (*said, CatalogueQuery(mechanism))))
    return TopicItem(mechanism.name, sentences, mechanism=mechanism, since=holders(mechanism).since)


def studied_mechanism(mechanism: Mechanism) -> TopicItem:
    """What a mechanism is, who has it since when, and what studies say of it."""
    item = mechanism_item(mechanism)
    return replace(item, sentences=(*item.sentences, *map(Sentence.of, studies_of(mechanism.name))))


def asked(topic: Topic) -> Iterator[TopicItem]:
    """The studies whose arms differ in mechanisms of the topic, or are of it, in one line each, and what none asks about."""
    names = [each.name for each in topic.mechanisms]
    found = {study: tuple(name for name in names if study in asking(name)) for study in studies()}
    of_topic = {study: own for study, own in found.items() if own or study in topic.studies}
    if of_topic:
        yield TopicItem("", tuple(Sentence.of(StudyVerdicts(study, own)) for study, own in of_topic.items()))
    if without := tuple(name for name in names if not asking(name)):
        yield TopicItem("", (Sentence.of(NotAsked(without)),))


def _registered(topic: Topic) -> Iterator[TopicItem]:
    for base in topic.registries:
        for name in kinds(base):
            yield TopicItem(name.replace("_", " "), (Sentence.of(RegisteredKind(base, name)),))


def _unused(topic: Topic) -> Iterator[TopicItem]:
    """Parts of the topic's rooms with a kind of their own that no mechanism names and no entry has."""
    named = {each.part for each in mechanisms()}
    for name, part in sorted(documented().items()):
        module = part.__module__
        inside = any(module == f"{PARTS}.{room}" or module.startswith(f"{PARTS}.{room}.") for room in topic.rooms)
        if inside and name not in named and _is_kind(part) and not holders(Mechanism(name, topic.name, part=name)).entries:
            yield TopicItem(name, (Sentence.of(Documentation(name)),))


def _is_kind(part: object) -> bool:
    """Whether it is a class that nothing is made from but values: not a base of others, nor a function."""
    return isinstance(part, type) and not part.__subclasses__() and not part.__name__.startswith("_")


def _costs(topic: Topic) -> Iterator[TopicItem]:
    if topic.changes:
        yield TopicItem("", tuple(Sentence.of(Priced(topic.base, change)) for change in topic.changes))


def _studies(topic: Topic) -> Iterator[TopicItem]:
    """The questions whose findings are of a study of the topic."""
    asked: dict[str, list[StudyFinding]] = {}
    for number, each in enumerate(findings()):
        if each.study in topic.studies:
            asked.setdefault(each.question, []).append(StudyFinding(number))
    for question, found in asked.items():
        budgets = dict.fromkeys(findings()[each.number].study for each in found)
        sentences = (*map(Sentence.of, found), *(Sentence.of(StudyBudget(name)) for name in budgets))
        yield TopicItem(question, sentences, note=f"Asked again after {findings()[found[0].number].papers}.")


def _claims(topic: Topic) -> Iterator[TopicItem]:
    if topic.claims:
        yield TopicItem("", tuple(Sentence.of(ClaimSource(name)) for name in topic.claims))
