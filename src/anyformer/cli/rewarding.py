"""`anyformer reward`."""

from __future__ import annotations

from os.path import isfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyformer.cli.aligned import aligned
from anyformer.cli.arguments import Json
from anyformer.cli.as_json import print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anyformer.rewards import Grade, Reward
    from anyformer.rewards.answered_prompts import AnsweredPrompt
    from anyformer.rewards.survey import RewardSurvey

EXAMPLES = """
anyformer reward answers.jsonl --reward exact_match
anyformer reward answers.jsonl --reward '{kind="extracted",pattern="####\\\\s*(\\\\S+)"}' --answer response
anyformer reward answers.jsonl --reward reward.toml --worst 10
anyformer reward answers.jsonl --reward '{kind="function",function="closeness"}' --plugin my_rewards.py
"""
_BAR, _SHOWN = 40, 60


def run(
    file: Annotated[
        str, typer.Argument(help="Records with prompts and answers: .jsonl, .json, .csv, .tsv or .parquet.", metavar="FILE")
    ],
    reward: Annotated[
        str,
        typer.Option(
            help="The reward: a kind, a table of its fields, or a TOML file that holds one, alone or as a run's "
            "`objective.reward`.",
            metavar="KIND|TABLE|FILE.toml",
        ),
    ],
    prompt: Annotated[str, typer.Option(help="The field with the prompt: a text, or turns.", metavar="FIELD")] = "prompt",
    answer: Annotated[
        str, typer.Option(help="The field with what a model answered: a text, or a list of texts.", metavar="FIELD")
    ] = "response",
    ended: Annotated[
        str | None, typer.Option(help="The field that says whether the answer ended by itself.", metavar="FIELD")
    ] = None,
    worst: Annotated[int, typer.Option(help="Show this many answers of the least reward.", min=0, metavar="COUNT")] = 3,
    json: Json = False,
) -> None:
    """Grade answers in a file by a reward, to see what it rewards before a model learns from it.

    It prints how the rewards are spread, the mean of every part, the worst answers, and in how many groups the answers to a
    prompt differ: learning by comparison within a group learns nothing of the others. Answers to equal prompts are a group.
    Fields of the record that the reward reads are named in it, as in '{kind="exact_match",column="gold"}'.
    """
    from anyformer.plan import Plan
    from anyformer.rewards.answered_prompts import answered_prompts
    from anyformer.rewards.survey import surveyed

    asked = reward_of(reward)
    asked.check()
    given = answered_prompts(file, prompt, answer, ended)
    judges = {}
    if asked.models:
        from anyformer.training.judges import judges_at

        judges = judges_at(asked.models, Plan(compile="off"))
    grades = asked.grades([each.pair for each in given], judges)
    survey = surveyed(grades, [each.query.text for each in given])
    if json:
        print_json(data(asked, survey, given, worst))
    else:
        print("\n".join(lines(asked, survey, given, worst)))


def reward_of(text: str) -> Reward:
    """The reward that a word, a table or a file names."""
    from anyformer.describe import parse_assignment, read_data, without_plugins
    from anyformer.rewards import WeightedReward

    if text.endswith(".toml") or isfile(text):
        table, _ = without_plugins(read_data(Path(text)), text)
        return WeightedReward.parse({"reward": table.get("objective", {}).get("reward", table)}, where=text).reward
    return WeightedReward.parse({"reward": parse_assignment(f"reward={text}")[1]}, where="--reward").reward


def data(reward: Reward, survey: RewardSurvey, given: Sequence[AnsweredPrompt], worst: int) -> dict[str, Any]:
    """All that was found."""
    return {
        "reward": reward.plain(), "answers": len(given), "mean": survey.mean, "deviation": survey.deviation,
        "histogram": [{"from": low, "to": high, "answers": count} for low, high, count in survey.histogram],
        "parts": dict(survey.parts), "groups": len(survey.groups), "varying": survey.varying, "warning": survey.warning,
        "worst": [_case(given[place], survey.grades[place]) for place in survey.worst(worst)],
        "rewards": survey.totals,
    }  # fmt: skip


def _case(given: AnsweredPrompt, grade: Grade) -> dict[str, Any]:
    return {
        "where": given.where, "prompt": given.query.text, "response": given.response.text, "reward": grade.total,
        "parts": dict(grade.parts),
    }  # fmt: skip


def lines(reward: Reward, survey: RewardSurvey, given: Sequence[AnsweredPrompt], worst: int) -> list[str]:
    """All that was found, in lines."""
    found = [
        f"{len(given):,} answers to {len(set(survey.prompts)):,} prompts, reward {reward.kind}: mean {survey.mean:.4g}, "
        f"standard deviation {survey.deviation:.4g}",
        "",
    ]
    most = max(count for _, _, count in survey.histogram)
    found += aligned(
        [
            (f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}", f"{count:,}", "#" * round(_BAR * count / most))
            for low, high, count in survey.histogram
        ],
        (False, True, False),
    )
    if survey.parts:
        found += ["", *aligned([(name, f"{mean:.4g}") for name, mean in survey.parts.items()], (False, True))]
    if survey.groups:
        found += ["", f"the rewards differ in {survey.varying:,} of {len(survey.groups):,} groups of answers to one prompt"]
        found += [] if survey.warning is None else [survey.warning]
    if worst:
        rows = [
            (f"{survey.totals[place]:.4g}", given[place].where, _cut(given[place].query.text), _cut(given[place].response.text))
            for place in survey.worst(worst)
        ]
        found += ["", *aligned([("reward", "where", "prompt", "answer"), *rows], (True, False, False, False))]
    return found


def _cut(text: str) -> str:
    from anyformer.describe import printable

    line = printable(" ".join(text.split()))
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 3]}..."
