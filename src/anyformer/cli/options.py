"""Options of commands in groups, whose values are dataclasses; and --plugin, which every command has."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import MISSING, fields, is_dataclass
from inspect import Parameter
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from anyformer.describe import naming

T = TypeVar("T")
Plugins = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin",
        help="Know the parts, objectives, tasks and families of this plug-in, a file of your own or an installed module "
        "(docs/extend.md). Repeat it for more. ANYFORMER_PLUGINS names them for every command.",
        metavar="FILE.py|MODULE",
    ),
]


def grouped(run: Callable[..., T]) -> Callable[..., T]:
    """A command in which a parameter whose class is a dataclass is replaced by one option per field.

    Fields are annotated and have defaults as parameters do; the command gets the value that they make.
    """
    own = _parameters(run)
    groups: dict[str, Any] = {each.name: each.annotation for each in own if is_dataclass(each.annotation)}

    def command(*arguments: Any, **options: Any) -> T:
        for name, group in groups.items():
            options[name] = group(**{each.name: options.pop(each.name) for each in fields(group) if each.name in options})
        return run(*arguments, **options)

    return _taking(run, [option for each in own for option in _options_of(each)], command)


def also_taking(run: Callable[..., T], name: str, annotation: Any, default: Any, command: Callable[..., T]) -> Callable[..., T]:
    """`command` in the place of `run`, with one more option behind its own."""
    option = Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
    return _taking(run, [*_parameters(run), option], command)


def with_plugins(run: Callable[..., T]) -> Callable[..., T]:
    """A command with the option; a plug-in is loaded only where something is not known without it."""

    def command(*arguments: Any, plugins: list[str] | None = None, **options: Any) -> T:
        with naming(plugins or ()):
            return run(*arguments, **options)

    return also_taking(run, "plugins", Plugins, None, command)


def _parameters(run: Callable[..., Any]) -> tuple[Parameter, ...]:
    return tuple(inspect.signature(run, eval_str=True).parameters.values())


def _options_of(parameter: Parameter) -> list[Parameter]:
    """The parameters in the place of one: the fields of a group, else itself."""
    group = parameter.annotation
    if not is_dataclass(group):
        return [parameter]
    hints = get_type_hints(group, include_extras=True)
    return [
        Parameter(
            each.name,
            parameter.kind,
            default=Parameter.empty if each.default is MISSING else each.default,
            annotation=hints[each.name],
        )
        for each in fields(group)
    ]


def _taking(run: Callable[..., T], parameters: Iterable[Parameter], command: Callable[..., T]) -> Callable[..., T]:
    """`command` in the place of `run`, with these parameters to whoever looks at it."""
    made = functools.wraps(run)(command)
    made.__signature__ = inspect.signature(run, eval_str=True).replace(parameters=list(parameters))  # type: ignore[attr-defined]
    return made
