"""The views of `anyformer inspect`: each as lines and tables, as data, and as a picture."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.table import Table
from torch import Tensor

from anyformer import inspecting
from anyformer.cli.inspected_text import InspectedText, repeated, repeated_in_words

MOST_PATHS = 20
"""Lines of a table at most; JSON has all."""


@dataclass(frozen=True)
class InsideView:
    """A view: its name, its tables with the lines before them, its data, and what draws it into a file."""

    name: str
    tables: tuple[Table, ...]
    data: Any
    draw: Callable[[Path], None] | None = None
    lines: tuple[str, ...] = ()


def heads(asked: InspectedText) -> InsideView:
    """What every head looks for: in the text, or without one in random tokens that come twice."""
    given, read = (
        (repeated(asked.subject), repeated_in_words) if asked.prompt.text is None else (asked.question.clean, _text_in_words)
    )
    found = inspecting.head_patterns(asked.subject.model, given)
    table = inspecting.pattern_table(found, most=MOST_PATHS, read="" if given is None else read(given))
    return InsideView("heads", (table,), [asdict(each) for each in found])


def _text_in_words(tokens_BT: Tensor) -> str:
    return f"the text of {tokens_BT.shape[1]} tokens"


def lens(asked: InspectedText) -> InsideView:
    """The logit lens at the position."""
    question = asked.question
    position = question.position
    wanted, other = map(question.everywhere, question.numbers)
    found = inspecting.logit_lens(question.model, question.clean, wanted=wanted, other=other)
    compared = {} if found.difference_LBT is None else {"difference": found.difference_LBT[:, 0, position].tolist()}
    data = [
        {
            "path": path, "tokens": [question.word(token) for token in found.tokens_LBTk[at, 0, position].tolist()],
            "probabilities": found.probabilities_LBTk[at, 0, position].tolist(),
            "wanted": float(found.wanted_LBT[at, 0, position]), "rank": int(found.rank_LBT[at, 0, position]),
            "divergence": float(found.divergence_LBT[at, 0, position]),
            **{name: values[at] for name, values in compared.items()},
        }
        for at, path in enumerate(found.paths)
    ]  # fmt: skip
    said = asked.prompt.wanted is not None or other is not None
    about = question.about if other is not None else question.shown(question.numbers[0]) if said else ""
    draws = partial(inspecting.draw_reading, asked=about)
    title = f"logit lens{f': {about}' if about else ''}"
    draw = partial(_titled, draws, asked, title, found, question.shown_words, question.shown)
    return InsideView("lens", (found.table(question.shown, position=position),), data, draw)


def attribution(asked: InspectedText) -> InsideView:
    """The shares of the logit, or of the difference."""
    question = asked.question
    position = question.position
    wanted, against = map(question.everywhere, question.numbers)
    found = inspecting.attribution(question.model, question.clean, wanted=wanted, against=against)
    data = {
        "logit": float(found.logit_BT[0, position]), "rest": float(found.rest_BT[0, position]),
        "shares": dict(found.lines(position=position)),
    }  # fmt: skip
    draw = partial(_titled, partial(inspecting.draw_attribution, position=position), asked, "direct logit attribution", found)
    return InsideView("attribution", (found.table(question.shown, position=position, most=MOST_PATHS),), data, draw)


def patterns(asked: InspectedText) -> InsideView:
    """The attention weights of every head."""
    found = inspecting.attention_patterns(asked.subject.model, asked.question.clean)
    draw = partial(_titled, inspecting.draw_patterns, asked, "attention", found, asked.question.shown_words)
    return InsideView("patterns", (), {path: weights[0].tolist() for path, weights in found.items()}, draw)


def patching(asked: InspectedText) -> Iterator[InsideView]:
    """Values of the text in the other one: the stream position by position, and heads where there are any."""
    question = asked.question
    model = question.model
    by_head = [each.by_head for each in inspecting.writers(model) if each.heads]
    yield _of_both(asked)
    for name, paths, by in (("patching", inspecting.streams(model), "T"), ("patched_heads", by_head, "H")):
        if not paths:
            continue
        found = inspecting.activation_patching(model, question.clean, question.corrupted, question.metric, paths, by=by)
        words = [f"{number} {word}" for number, word in enumerate(question.shown_words)]
        data = {path: found.restored(path).tolist() for path in found.changed}
        title = f"patching by {'head' if by == 'H' else 'position'}"
        draw = partial(_titled, inspecting.draw_patching, asked, title, found, question.shown_words)
        yield InsideView(name, (found.table(words.__getitem__, most=MOST_PATHS),), data, draw)


def _of_both(asked: InspectedText) -> InsideView:
    """The logit that is asked about, or the difference, of both texts."""
    clean, corrupted, remark = asked.question.of_both()
    lines = (f"{asked.question.about}: clean {clean:.4f}, corrupted {corrupted:.4f}", *filter(None, [remark]))
    return InsideView("metric", (), {"clean": clean, "corrupted": corrupted}, lines=lines)


def searched_circuit(asked: InspectedText, threshold: float, *, by_input: bool) -> InsideView:
    """The edges that the answer needs, by cutting one after another."""
    question = asked.question
    found = inspecting.find_circuit(
        question.model, question.clean, question.corrupted, threshold=threshold, by_input=by_input,
        positions=(question.position,),
    )  # fmt: skip
    return _of_circuit(asked, found)


def scored_circuit(asked: InspectedText, size: int, way: str, *, by_input: bool) -> InsideView:
    """The edges with the largest scores, of what their cut does to the logit or difference."""
    question = asked.question
    scores = inspecting.score_edges(
        question.model, question.clean, question.corrupted, question.metric, way=way, by_input=by_input,
        positions=(question.position,),
    )  # fmt: skip
    return _of_circuit(asked, scores.circuit(size=size))


def _of_circuit(asked: InspectedText, found: inspecting.Circuit) -> InsideView:
    """A circuit, and which share it keeps."""
    question = asked.question
    edges = [{"from": edge.sender, "to": edge.receiver, "into": edge.into, "cost": cost} for edge, cost in found.edges]
    clean, corrupted, remark = question.of_both()
    kept = None
    if clean != corrupted:
        kept = found.faithfulness(question.model, question.clean, question.corrupted, question.metric)
    told = f"the {question.about} (clean {clean:.4f}, corrupted {corrupted:.4f})"
    share = "none" if kept is None else f"{kept:.3f}"
    data = {
        "edges": edges, "considered": found.considered, "scored": found.scored or "search", "threshold": found.threshold,
        "divergence": found.divergence, "empty": found.empty, "faithfulness": kept,
        "metric": {"about": question.about, "clean": clean, "corrupted": corrupted},
    }  # fmt: skip
    lines = (f"faithfulness {share}: the share that the circuit alone keeps of {told}", *filter(None, [remark]))
    draw = partial(_titled, inspecting.draw_circuit, asked, "circuit", found)
    return InsideView("circuit", (found.table(),), data, draw, lines)


def features(asked: InspectedText, directory: Path, feature: int | None) -> InsideView:
    """The features of a dictionary that are active at the position, what they write, and where in the text one is active."""
    from anyformer.evaluation.learnt_at import open_dictionary

    question = asked.question
    found = open_dictionary(directory, question.model)
    reading, position = found.reading(question.clean), question.position
    tables, strongest = [found.table(reading, question.shown, position=position)], reading.strongest(position=position)
    lines = [
        {"feature": number, "activation": value, "tokens": [question.word(token) for token, _ in tokens]}
        for (number, value), tokens in zip(strongest, found.tokens([number for number, _ in strongest]), strict=True)
    ]
    lines_of: tuple[str, ...] = ()
    data: dict[str, Any] = {"read": list(found.read), "written": list(found.written), "active": lines}
    if feature is not None:
        data["feature"] = {"feature": feature, "activations": reading.of(feature).tolist()}
        if (reading.of(feature) > 0).any():
            tables.append(inspecting.feature_table(reading, feature, question.shown_words))
        else:
            lines_of = (f"feature {feature} is active at 0 of {len(question.words)} tokens",)
    return InsideView("features", tuple(tables), data, lines=lines_of)


def _titled(draws: Callable[..., None], asked: InspectedText, what: str, *given: Any) -> None:
    *values, path = given
    draws(*values, path, title=f"{asked.subject.path.name}: {what}")
