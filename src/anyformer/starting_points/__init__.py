"""Small working examples of what can be added, to start from (`anyformer new`): a template of each stands beside this file."""

from anyformer.starting_points.house import ROOMS, checkout, in_package
from anyformer.starting_points.names import Spellings
from anyformer.starting_points.plugin import plugin
from anyformer.starting_points.things import THINGS, Thing
from anyformer.starting_points.writing import NewFiles

__all__ = ["ROOMS", "THINGS", "NewFiles", "Spellings", "Thing", "checkout", "in_package", "plugin"]
