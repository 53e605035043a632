"""The option --plugin, which every command has."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from anyformer.describe import naming

Plugins = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin",
        help="Know the parts, objectives, tasks and families of this plug-in, a file of your own or an installed module "
        "(docs/extend.md). Repeat it for more. ANYFORMER_PLUGINS names them for every command.",
        metavar="FILE.py|MODULE",
    ),
]


def with_plugins(run: Callable[..., Any]) -> Callable[..., Any]:
    """A command with the option; a plug-in is loaded only where something is not known without it."""

    @functools.wraps(run)
    def command(*arguments: Any, plugins: list[str] | None = None, **options: Any) -> Any:
        with naming(plugins or ()):
            return run(*arguments, **options)

    own = inspect.signature(run, eval_str=True)
    option = inspect.Parameter("plugins", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Plugins)
    command.__signature__ = own.replace(parameters=[*own.parameters.values(), option])  # type: ignore[attr-defined]
    return command
