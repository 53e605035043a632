"""The library `huggingface_hub`, which this file alone imports, and its errors in words."""

from __future__ import annotations

import contextlib
import errno
import importlib
from collections.abc import Callable, Iterator
from typing import Any

from anyformer.describe import UserError
from anyformer.hub.names import HubError, HubName

AT_LEAST = "1.31"
LOGIN = "log in with `hf auth login`, or give a token in HF_TOKEN"
SERVER_FAILS = 500
"""The first status that says that the hub itself failed."""


def library() -> Any:
    """The library. Raises `HubError` where it is absent, or too old to know what is asked of it."""
    try:
        found = importlib.import_module("huggingface_hub")
    except ImportError:
        raise HubError("a hub is asked by huggingface_hub, which is not here: pip install 'anyformer[hub]'") from None
    if tuple(map(int, found.__version__.split(".")[:2])) < tuple(map(int, AT_LEAST.split("."))):
        raise HubError(
            f"a hub is asked by huggingface_hub {AT_LEAST} or newer, and {found.__version__} is here: "
            "pip install --upgrade 'anyformer[hub]'"
        )
    return found


def errors() -> Any:
    """The library's classes of errors."""
    library()
    return importlib.import_module("huggingface_hub.errors")


def endpoint() -> str:
    """The hub that is asked: `HF_ENDPOINT`, else Hugging Face's."""
    address: str = library().constants.ENDPOINT
    return address


def cache() -> str:
    """The folder in which fetched files are kept: `HF_HUB_CACHE`, else `hub` in `HF_HOME`."""
    place: str = library().constants.HF_HUB_CACHE
    return place


def has_token() -> bool:
    """Whether there is a token, of HF_TOKEN or of a login."""
    return bool(library().get_token())


def unreachable(error: Exception) -> bool:
    """Whether the hub gave no answer, or failed itself: what is in the cache may serve."""
    known = errors()
    if isinstance(error, known.HfHubHTTPError):
        return bool(error.response.status_code >= SERVER_FAILS)
    return not isinstance(error, (UserError, known.HFValidationError)) and not is_full(error)


def is_full(error: BaseException) -> bool:
    """Whether a disk is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def offline() -> bool:
    """Whether HF_HUB_OFFLINE forbids to ask the hub."""
    return bool(library().is_offline_mode())


def beginning(path: str, count: int) -> bytes:
    """The first bytes of a file, `ORG/NAME@REVISION/FILE`, of which nothing else is sent."""
    with library().HfFileSystem(endpoint=endpoint(), skip_instance_cache=True).open(path, "rb", cache_type="none") as file:
        content: bytes = file.read(count)
    return content


def counting(advance: Callable[[int], None]) -> type:
    """A bar of the library that draws nothing, and tells `advance` of the bytes just fetched."""
    bar = importlib.import_module("tqdm").tqdm

    def began(self: Any, *arguments: Any, **options: Any) -> None:
        bar.__init__(self, *arguments, **{**options, "disable": True})

    return type("Counting", (bar,), {"__init__": began, "update": lambda self, count=1: advance(int(count))})


@contextlib.contextmanager
def silent_bars() -> Iterator[None]:
    """Within, the library draws no bars of its own."""
    utils = importlib.import_module("huggingface_hub.utils")
    if utils.are_progress_bars_disabled():
        yield
        return
    utils.disable_progress_bars()
    try:
        yield
    finally:
        utils.enable_progress_bars()


@contextlib.contextmanager
def told(name: HubName, file: str | None = None) -> Iterator[None]:
    """Turn whatever the library raises into a `HubError` about a model, and a `file` of it."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        raise HubError(_words(name, file, error)) from error


def _words(name: HubName, file: str | None, error: Exception) -> str:
    known, what = errors(), f"{name}: {file}" if file else str(name)
    page = f"{endpoint()}/{name.repo}"
    match error:
        case known.GatedRepoError():
            who = "your account has not been let in" if has_token() else "no token was given"
            return (
                f"{name}: its authors let in whom they know, and {who}: open {page} in a browser, accept the conditions there "
                f"with your account (some authors answer by hand, later), then {LOGIN}"
            )
        case known.RepositoryNotFoundError():
            who = "your token may not see it" if has_token() else f"to see a private one, {LOGIN}"
            said = f"{name}: {endpoint()} has no such model, or it is private, which a hub does not tell apart"
            return f"{said}: check the name; {who}"
        case known.RevisionNotFoundError():
            return f"{name}: the model has no branch, tag or commit {name.revision!r}; {page}/tree/main lists them"
        case known.LocalEntryNotFoundError() | known.OfflineModeIsEnabled():
            cause = error.__cause__
            return not_here(name, file, first_line(cause) if isinstance(cause, Exception) and not offline() else "")
        case known.EntryNotFoundError():
            return f"{what}: the model has no such file at this revision; {page}/tree/{name.revision or 'main'} lists its files"
        case known.DisabledRepoError():
            return f"{name}: was disabled on the hub; {page} may say why"
        case known.HFValidationError():
            return f"{name}: is no name of a hub ({first_line(error)})"
        case known.HfHubHTTPError():
            return _of_status(name, what, error)
    if isinstance(error, ValueError):
        return f"{what}: {endpoint()} refuses ({'; '.join(str(error).split(chr(10)))})"
    if is_full(error):
        return f"{what}: no space is left in {cache()}: free some, or name another place with HF_HUB_CACHE"
    return (
        f"{what}: the connection to {endpoint()} failed ({type(error).__name__}: {first_line(error)}); give the same command "
        "again: files that are whole stay"
    )


def _of_status(name: HubName, what: str, error: Any) -> str:
    """What a status of HTTP means where the library has no class of its own for it."""
    status = error.response.status_code
    if status == 401:
        return f"{what}: the hub refuses the token that it was given; is it expired? {LOGIN}"
    if status == 403:
        return f"{what}: the token may not do this ({_said(error)}); {endpoint()}/settings/tokens makes one that may"
    if status == 429:
        return f"{what}: the hub asks to wait (too many requests); try again in some minutes, with a token for a higher limit"
    if status >= SERVER_FAILS:
        return f"{what}: {endpoint()} fails (status {status}); try again later"
    return f"{what}: {endpoint()} refuses (status {status}: {_said(error)})"


def not_here(name: HubName, file: str | None, why: str = "") -> str:
    """What is said of a file that is not in the cache while the hub is not asked, or gives no answer; `why`: its error."""
    what = "the model" if file is None else file
    why = "HF_HUB_OFFLINE is set" if offline() else f"{endpoint()} gives no answer ({why})"
    wanted = f"{name.repo} {file}" if file else name.repo
    revision = f" --revision {name.revision}" if name.revision else ""
    return (
        f"{name}: {what} is not in the cache ({cache()}), and {why}: give the same command once with a connection, or "
        f"`hf download {wanted}{revision}`"
    )


def _said(error: Any) -> str:
    return str(error.server_message or first_line(error))


def first_line(error: Exception) -> str:
    """The first line of an error that is not empty."""
    return next((line for line in str(error).splitlines() if line.strip()), "")
