"""Golden vectors as a JSON file, with which an engine is held against a model that is elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from anyformer.conforming.gaps import Bound
from anyformer.conforming.golden import GoldenCase, GoldenRequest, GoldenVectors
from anyformer.conforming.request import Completion, CompletionRequest, TokenLogProbs
from anyformer.describe import UserError, read_json
from anyformer.files import check_file, write_text

FORM = 1
"""The version of the file's form."""
_DIGITS = 6


class GoldenFileError(UserError):
    """A file that holds no golden vectors of this version."""


def write_golden(path: Path, vectors: GoldenVectors) -> None:
    """Write the vectors, their log-probabilities to six decimals."""
    check_file(path)
    table = {
        "golden_vectors": FORM,
        "model": vectors.model,
        "vocabulary": vectors.vocabulary,
        "arithmetic": vectors.arithmetic,
        "cases": [
            {
                "name": case.name,
                "skipped": case.skipped,
                "bound": asdict(case.bound),
                "rounds": [[_plain(each) for each in requests] for requests in case.rounds],
            }
            for case in vectors.cases
        ],
    }
    write_text(path, json.dumps(table, ensure_ascii=False) + "\n")


def read_golden(path: Path) -> GoldenVectors:
    """The vectors of a file; `GoldenFileError` names what is wrong with it."""
    table = read_json(path)
    if not isinstance(table, dict) or table.get("golden_vectors") != FORM:
        raise GoldenFileError(
            f"{path}: holds no golden vectors of form {FORM}; write them with anyformer conform - MODEL --save FILE.json"
        )
    try:
        return GoldenVectors(table["model"], table["vocabulary"], table["arithmetic"], tuple(map(_case, table["cases"])))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise GoldenFileError(
            f"{path}: its golden vectors are damaged ({type(error).__name__}: {error}); write them again with --save"
        ) from None


def _plain(golden: GoldenRequest) -> dict[str, Any]:
    usual = CompletionRequest("", ())
    asked = {name: value for name, value in vars(golden.request).items() if value != vars(usual)[name]}
    places = {"made": golden.completion.made, "prompt": golden.completion.prompt}
    return {
        "request": asked,
        **{name: [_place(each) for each in found if each is not None] for name, found in places.items() if found},
    }


def _place(place: TokenLogProbs) -> list[Any]:
    """Token, log-probability, the likeliest tokens, their log-probabilities."""
    return [
        place.token,
        round(place.logprob, _DIGITS),
        list(place.top),
        [round(value, _DIGITS) for value in place.top.values()],
    ]


def _case(table: Mapping[str, Any]) -> GoldenCase:
    rounds = tuple(tuple(map(_golden, requests)) for requests in table["rounds"])
    return GoldenCase(table["name"], rounds, Bound(**table["bound"]), table["skipped"])


def _golden(table: Mapping[str, Any]) -> GoldenRequest:
    request = CompletionRequest(**{**table["request"], "tokens": tuple(table["request"]["tokens"])})
    made, prompt = (tuple(map(_token, table.get(name, ()))) for name in ("made", "prompt"))
    return GoldenRequest(request, Completion(made, prompt, read=request.length))


def _token(written: list[Any]) -> TokenLogProbs:
    token, logprob, numbers, values = written
    return TokenLogProbs(token, logprob, dict(zip(numbers, values, strict=True)))
