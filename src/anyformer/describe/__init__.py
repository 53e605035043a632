"""Descriptions as frozen values: TOML and JSON both ways, change by path, compare, errors for people. No torch here."""

from anyformer.describe.bounds import Count, NotNegative, Positive, Probability
from anyformer.describe.brief import brief
from anyformer.describe.choice import Choice
from anyformer.describe.errors import DescriptionError, Notice, Problem, UserError, did_you_mean
from anyformer.describe.named import Named
from anyformer.describe.path import change, change_all, diff, get, parse_assignment
from anyformer.describe.registry import Registry, with_kind
from anyformer.describe.text import from_json, from_toml, read_data, schema, to_json, to_toml
from anyformer.describe.value import Value, numbers

__all__ = [
    "Choice",
    "Count",
    "DescriptionError",
    "Named",
    "NotNegative",
    "Notice",
    "Positive",
    "Probability",
    "Problem",
    "Registry",
    "UserError",
    "Value",
    "brief",
    "change",
    "change_all",
    "did_you_mean",
    "diff",
    "from_json",
    "from_toml",
    "get",
    "numbers",
    "parse_assignment",
    "read_data",
    "schema",
    "to_json",
    "to_toml",
    "with_kind",
]
