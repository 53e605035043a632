"""The refusal of loggers whose package is not installed, before any work."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable

from anyformer.describe import UserError
from anyformer.training.loggers.logger import Logger


def check_loggers(loggers: Iterable[Logger]) -> None:
    """Raise `UserError` for a logger whose package is not installed or cannot be imported, or that lacks anything else."""
    for logger in loggers:
        name, remedy = logger.package, f"pip install 'anyformer[{logger.kind}]', or leave it out of loggers"
        found = importlib.util.find_spec(name)
        # A folder of this name in the working directory is a module too, without an origin: `wandb/` of earlier runs is one.
        if found is None or found.origin is None:
            raise UserError(f"loggers: {logger.kind!r} needs the package {name}, which is not installed: {remedy}")
        try:
            importlib.import_module(name)
        except Exception as error:  # a package beside versions that it does not know may raise anything
            raise UserError(
                f"loggers: {logger.kind!r} needs the package {name}, which cannot be imported ({error}): {remedy}"
            ) from error
        logger.check()
