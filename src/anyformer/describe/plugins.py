"""Plug-ins: parts, objectives, optimisers, tasks and families of one's own, kept outside the package.

A plug-in is a file, `my_parts.py`, or a module. Its classes enter their registries by being defined, so it is enough to import
it. That happens only because the user names it (on the command line, in the environment, in Python) or has installed it with
an entry point, never because a file that is read names it; and only where a kind or a model type is not known without it.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType

from anyformer.describe.errors import Notice, UserError

VARIABLE = "ANYFORMER_PLUGINS"
"""The environment's variable that names plug-ins, with `os.pathsep` between; processes that this one starts have it too."""
PARTS, FAMILIES = "anyformer.parts", "anyformer.families"
"""Groups of entry points: of whatever has a kind, and of families of Hugging Face models."""
NAME = re.compile(r"[\w./-]+(==[\w.+!-]+)?\Z")
"""A plug-in's name in a description: a file `my_parts.py`, a distribution `retention==1.0`, or a module `my_package.parts`."""
HINT = "a part of your own needs its plug-in, --plugin FILE.py, or import the module that defines it first"
SHORT = "one of your own needs --plugin FILE.py"
"""The remedy for an unknown kind; the short one stands beside a suggestion."""
_tried: set[tuple[str, str]] = set()
"""Entry points that were loaded, or could not be."""


class PluginError(UserError):
    """A plug-in cannot be loaded; the message names it, the reason and the remedy."""


def load_plugin(name: str | Path) -> ModuleType:
    """Import a plug-in, the path of a .py file or the name of a module, for this process and those that it starts."""
    module = _imported(name := _absolute(name))
    _name(name)
    return module


@contextmanager
def naming(names: Iterable[str]) -> Iterator[None]:
    """Inside, plug-ins are named; one is loaded once a kind or model type is not known without it. A file must be there."""
    before = os.environ.get(VARIABLE)
    try:
        for each in names:
            name = _absolute(each)
            if name.endswith(".py") and not Path(name).is_file():
                raise PluginError(f"plug-in {name}: no such file")
            _name(name)
        yield
    finally:
        if before is None:
            os.environ.pop(VARIABLE, None)
        else:
            os.environ[VARIABLE] = before


def load_plugins(group: str = PARTS) -> None:
    """Import every plug-in that the user named, then those that are installed with an entry point of this group.

    An installed one that cannot be imported is a `Notice`: it may have nothing to do with what is looked for.
    """
    for name in named_plugins():
        _imported(_absolute(name))
    for entry in entry_points(group=group):
        if (entry.value, group) not in _tried:
            _tried.add((entry.value, group))
            try:
                entry.load()
            except Exception as error:  # any error of foreign code
                words = f"the installed plug-in {_distribution(entry)} cannot be loaded ({type(error).__name__}: {error})"
                warnings.warn(words, Notice, stacklevel=2)


def plugin_of(home: str) -> str | None:
    """The plug-in that a module belongs to, as descriptions name it (`NAME`); None for the package's own."""
    if home.partition(".")[0] == "anyformer":
        return None
    for entry in _entries():
        if entry.module.partition(".")[0] == home.partition(".")[0]:
            return _distribution(entry)
    file = _place(sys.modules.get(home))
    single = "." not in home and file is not None and Path(file).stem != "__init__"
    name = Path(file).name if single and file is not None else home
    return name if name != "__main__" and NAME.match(name) else None  # a notebook has no file, and a script any name


def absent(names: Iterable[str]) -> list[str]:
    """Those of the plug-ins that a description names which are not loaded."""
    files = {Path(file).name for name, each in list(sys.modules.items()) if "." not in name and (file := _place(each))}
    installed = {_distribution(entry).partition("==")[0] for entry in _entries()}
    known = files | installed | sys.modules.keys()
    return [name for name in names if Path(name.partition("==")[0]).name not in known]


def remedy(names: Iterable[str]) -> str:
    """How to load plug-ins that a description names."""
    ways = [f"pip install {name}" if "==" in name else f"add --plugin {name} (in Python: load_plugin)" for name in names]
    return " and ".join(ways)


def named_plugins() -> list[str]:
    """The plug-ins that the user named, in order."""
    return [name for name in os.environ.get(VARIABLE, "").split(os.pathsep) if name]


def tried_plugins() -> bool:
    """Whether an installed plug-in was looked at in this process, so that its code may have entered into what followed."""
    return bool(_tried)


def _name(name: str) -> None:
    if name not in (names := named_plugins()):
        os.environ[VARIABLE] = os.pathsep.join([*names, name])


def _absolute(name: str | Path) -> str:
    """A module's name as it is; the path of a file so that it holds wherever a process starts."""
    text = str(name)
    return str(Path(text).expanduser().absolute()) if text.endswith(".py") else text


def _imported(name: str) -> ModuleType:
    try:
        return _file(Path(name)) if name.endswith(".py") else importlib.import_module(name)
    except PluginError:
        raise
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _failed(name, error) from error
        raise PluginError(
            f"plug-in {name}: no such module is installed; pip install it, or give the path of its .py file"
        ) from None
    except Exception as error:  # any error of foreign code
        raise _failed(name, error) from error


def _file(path: Path) -> ModuleType:
    """The module of a file: the one that is there already, or a new one of its name, found by other processes too."""
    for module in list(sys.modules.values()):
        if _place(module) == str(path):
            return module
    if not path.is_file():
        raise PluginError(f"plug-in {path}: no such file")
    if not path.stem.isidentifier():
        raise PluginError(f"plug-in {path}: name it with letters, digits and underscores, since it is imported by its name")
    if path.stem in sys.modules:
        other = _place(sys.modules[path.stem]) or "of Python"
        raise PluginError(
            f"plug-in {path}: a module called {path.stem!r} is there already ({other}); give the file another name"
        )
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # for files beside it, and for what is unpickled elsewhere
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path.stem]
        raise
    return module


def _place(module: ModuleType | None) -> str | None:
    """The file of a module; of some, which are made as they are used, nothing may be asked but what is there."""
    return None if module is None else module.__dict__.get("__file__")


def _failed(name: str, error: Exception) -> PluginError:
    """The error of a plug-in's own code, with its line."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == name]
    line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    at = f", line {line}" if line else ""
    return PluginError(f"plug-in {name}{at}: cannot be loaded: {type(error).__name__}: {error}")


def _entries() -> Iterator[EntryPoint]:
    for group in (PARTS, FAMILIES):
        yield from entry_points(group=group)


def _distribution(entry: EntryPoint) -> str:
    """`retention==1.0`; without a distribution the module's name."""
    return entry.module if entry.dist is None else f"{entry.dist.name}=={entry.dist.version}"
