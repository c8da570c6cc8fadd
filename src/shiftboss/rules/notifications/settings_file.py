"""Reads `notify.yaml` and reports all its problems at once, each with its line and its key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from shiftboss.errors import InvalidRequest
from shiftboss.protocol.notifications.settings import NotifySettings
from shiftboss.rules.documents.raw_data import Contradiction, as_mapping
from shiftboss.rules.documents.typed_files import problem_lines, read_typed_file, summarize_problems
from shiftboss.rules.documents.yaml_lines import KeyPath

_URL: Final = ("url", "url_variable", "url_file")
_SECRET: Final = ("secret_variable", "secret_file")
# What each kind of channel uses; another key would have no effect.
_KEYS: Final[dict[str, frozenset[str]]] = {
    "desktop": frozenset(),
    "command": frozenset({"command"}),
    "webhook": frozenset({*_URL, *_SECRET}),
    "slack": frozenset(_URL),
}


# Whether a host is this machine.
IsLoopback = Callable[[str], bool]


class InvalidNotifySettings(InvalidRequest):
    code = "invalid_notify_settings"
    title = "The settings of the notifications are not valid"


def read_notify_settings(text: str, name: str, is_loopback: IsLoopback) -> NotifySettings:
    """Raises InvalidNotifySettings with every problem as `name:line: key: what is wrong`."""
    check = partial(contradictions, is_loopback=is_loopback)
    form = read_typed_file(text, NotifySettings, check)
    if form.value is None or form.problems:
        lines = problem_lines(name, form.problems)
        raise InvalidNotifySettings(
            summarize_problems(lines),
            hint="docs/how-to.md has an example: get notified",
            facts={"problems": lines},
        )
    return form.value


def contradictions(data: dict[str, Any], is_loopback: IsLoopback) -> Iterator[Contradiction]:
    for name, channel in as_mapping(data.get("channels")).items():
        if isinstance(channel, dict) and channel.get("kind") in _KEYS:
            yield from _channel(("channels", name), channel, _KEYS[channel["kind"]])
            yield from _url(("channels", name, "url"), channel.get("url"), is_loopback)
    quiet = as_mapping(data.get("quiet"))
    if isinstance(quiet.get("zone"), str) and not _is_zone(quiet["zone"]):
        yield ("quiet", "zone"), "is not a time zone such as Europe/Berlin"


def _channel(
    path: KeyPath, channel: dict[str, Any], keys: frozenset[str]
) -> Iterator[Contradiction]:
    others = frozenset().union(*_KEYS.values()) - keys
    for key in sorted(others & channel.keys()):
        yield (*path, key), f"has no meaning for a channel of the kind {channel['kind']}"
    if "command" in keys and not channel.get("command"):
        yield path, "needs a command: a list of the program and its arguments"
    if "url" in keys:
        yield from _one_of(path, channel, _URL, "an address")
    if "secret_file" in keys:
        yield from _one_of(path, channel, _SECRET, "a secret for its signatures")


def _one_of(
    path: KeyPath, channel: dict[str, Any], keys: tuple[str, ...], what: str
) -> Iterator[Contradiction]:
    given = [key for key in keys if channel.get(key)]
    if not given:
        yield path, f"needs {what}: {' or '.join(keys)}"
    elif len(given) > 1:
        yield (*path, given[1]), f"is given as {given[0]} as well"


def _url(path: KeyPath, url: object, is_loopback: IsLoopback) -> Iterator[Contradiction]:
    problem = url_problem(url, is_loopback) if isinstance(url, str) else None
    if problem is not None:
        yield path, problem


def url_problem(url: str, is_loopback: IsLoopback) -> str | None:
    """Why notifications must not be sent there; None if they may."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        is_usable = bool(host) and parts.port != 0 and url.isprintable() and " " not in url
    except ValueError:
        return "is not an address"
    if parts.scheme not in ("http", "https") or not is_usable:
        return "must be an address that starts with http:// or https://"
    if parts.username is not None:
        return "must not contain a user name or a password"
    if parts.scheme == "http" and not is_loopback(host):
        return "must start with https://, unless the receiver is on this machine"
    return None


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (OSError, ValueError, KeyError):  # ZoneInfoNotFoundError is a KeyError
        return False
    return True
