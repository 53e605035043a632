"""Small working examples of what can be added, to start from (`anyformer new`): a template of each stands beside this file."""

from anyformer.starting_points.house import ROOMS, checkout, in_package
from anyformer.starting_points.names import Names
from anyformer.starting_points.plugin import plugin
from anyformer.starting_points.things import THINGS, Thing
from anyformer.starting_points.writing import Writing

__all__ = ["ROOMS", "THINGS", "Names", "Thing", "Writing", "checkout", "in_package", "plugin"]
