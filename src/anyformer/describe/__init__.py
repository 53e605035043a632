"""Descriptions as frozen values: TOML and JSON both ways, change by path, compare, errors for people. No torch here."""

from anyformer.describe.amounts import BINARY, METRIC, Amount, BinarySize
from anyformer.describe.assignment import parse_assignment
from anyformer.describe.bounds import Count, Moderate, NotNegative, Positive, Probability
from anyformer.describe.brief import brief
from anyformer.describe.changing import change, change_all
from anyformer.describe.choice import Choice
from anyformer.describe.digested import Digested
from anyformer.describe.errors import DescriptionError, InputError, Notice, Problem, UserError, did_you_mean
from anyformer.describe.foreign import ForeignError, json_data, read_foreign, read_json, text_in, toml_data
from anyformer.describe.named import Named
from anyformer.describe.part_set import Part, PartSet
from anyformer.describe.path import diff, get
from anyformer.describe.plugins import PluginError, load_plugin, load_plugins, naming, plugin_of
from anyformer.describe.printable import printable
from anyformer.describe.registry import Registry, with_kind
from anyformer.describe.spelling import leads_to, spelled
from anyformer.describe.text import from_json, from_toml, read_data, schema, to_json, to_toml
from anyformer.describe.value import PLUGINS, Value, goes_beyond, nested, numbers, without_plugins
from anyformer.describe.versions import VERSION, upgrade

__all__ = [
    "BINARY",
    "METRIC",
    "PLUGINS",
    "VERSION",
    "Amount",
    "BinarySize",
    "Choice",
    "Count",
    "DescriptionError",
    "Digested",
    "ForeignError",
    "InputError",
    "Moderate",
    "Named",
    "NotNegative",
    "Notice",
    "Part",
    "PartSet",
    "PluginError",
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
    "goes_beyond",
    "json_data",
    "leads_to",
    "load_plugin",
    "load_plugins",
    "naming",
    "nested",
    "numbers",
    "parse_assignment",
    "plugin_of",
    "printable",
    "read_data",
    "read_foreign",
    "read_json",
    "schema",
    "spelled",
    "text_in",
    "to_json",
    "to_toml",
    "toml_data",
    "upgrade",
    "with_kind",
    "without_plugins",
]
