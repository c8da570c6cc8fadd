"""Repositories that are named by a URL: what is allowed, and what git gets to see of it.

A URL is an argument of git, part of events and receipts, and shown to everybody. So it has no
credentials, no options, and only the transports that run nothing of the caller's choice.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote, urlsplit

URL_CHARACTERS_MAX: Final = 2000
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(//|:)")
# user@host:path, as ssh takes it. A Windows path has no user.
_SCP: Final = re.compile(r"[^/@:]+@[^/@:]+:.*")
_PRINTABLE: Final = re.compile(r"[!-~]+")
_HOST: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")
_USER: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_NETWORK: Final = ("https", "http", "ssh")


def is_url(repo: str) -> bool:
    """Whether this looks like the URL of a repository, allowed or not."""
    return bool(_SCHEME.match(repo) or _SCP.fullmatch(repo))


def checked_url(repo: str) -> str:
    """The URL, or the absolute path that a `file://` URL stands for. Raises ValueError with the
    reason why it is not allowed, which never repeats credentials."""
    if len(repo) > URL_CHARACTERS_MAX or not _PRINTABLE.fullmatch(repo):
        raise ValueError("a URL has at most 2000 characters, all of them printable ASCII")
    if not _SCHEME.match(repo):
        return _checked_scp(repo)
    parts = urlsplit(repo)
    has_slashes = repo[len(parts.scheme) :].startswith("://")
    if parts.scheme == "file" and has_slashes and parts.netloc in ("", "localhost"):
        if not parts.path.startswith("/"):
            raise ValueError("it names no path")
        return unquote(parts.path)
    if parts.scheme not in _NETWORK or not has_slashes:
        raise ValueError("the transports https, http, ssh and file are allowed")
    _check_user(parts.scheme, parts.username, parts.password)
    try:
        is_host = _HOST.fullmatch(parts.hostname or "") is not None
        _ = parts.port
    except ValueError:
        is_host = False
    if not is_host:
        raise ValueError("it names no host")
    if len(parts.path) < 2 or parts.path.startswith("/-"):
        raise ValueError("it names no repository on its host")
    return repo


def _check_user(scheme: str, user: str | None, password: str | None) -> None:
    if password is not None or (user is not None and scheme != "ssh"):
        raise ValueError("credentials do not belong into a URL; use a credentials file")
    if user is not None and not _USER.fullmatch(user):
        raise ValueError("the name of the user is not allowed")


def _checked_scp(repo: str) -> str:
    login, _, path = repo.partition(":")
    user, _, host = login.partition("@")
    if not _USER.fullmatch(user) or not _HOST.fullmatch(host):
        raise ValueError("write user@host:path, with letters and digits")
    if not path or path.startswith("-"):
        raise ValueError("it names no repository on its host")
    return repo
