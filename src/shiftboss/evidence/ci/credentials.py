"""The secrets that a policy names: tokens of forges and secrets of their webhooks.

Each comes from an environment variable of the server, or from a file that only its owner can read.
A file is read again every time, so that a new secret is used without a restart. No message contains
a secret.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from shiftboss.errors import EvidenceUnavailable
from shiftboss.protocol.ci import CredentialProblem
from shiftboss.protocol.policy import CiPolicy, Policy
from shiftboss.system.private_files import read_private

TOKEN: Final = "token"  # noqa: S105 - a word, not a token
WEBHOOK_SECRET: Final = "webhook_secret"  # noqa: S105
_FORGES: Final = ("forgejo", "github")


class CredentialSource(NamedTuple):
    """Where a secret comes from. The variable comes first; the file is for when it is not set."""

    kind: str
    variable: str | None
    file: str | None

    @property
    def is_named(self) -> bool:
        return self.variable is not None or self.file is not None

    @property
    def places(self) -> str:
        """For messages: `$VARIABLE`, the path, or both."""
        variable = None if self.variable is None else f"${self.variable}"
        return " or ".join(place for place in (variable, self.file) if place is not None)


class BadCredential(Exception):
    """`detail` is why there is no usable secret, `hint` what to do about it."""

    def __init__(self, detail: str, hint: str) -> None:
        super().__init__(detail)
        self.detail = detail
        self.hint = hint


def token_source(policy: CiPolicy) -> CredentialSource:
    return CredentialSource(TOKEN, policy.token_variable, policy.token_file)


def webhook_secret_source(policy: CiPolicy) -> CredentialSource:
    return CredentialSource(
        WEBHOOK_SECRET, policy.webhook_secret_variable, policy.webhook_secret_file
    )


def read_token(policy: CiPolicy) -> str | None:
    """The token of the forge; None if the policy names none. Raises BadCredential."""
    source = token_source(policy)
    return _read(source) if source.is_named else None


def read_webhook_secret(policy: CiPolicy) -> str:
    """Empty if there is none that can be used: then no webhook is accepted."""
    source = webhook_secret_source(policy)
    if not source.is_named:
        return ""
    try:
        return _read(source)
    except BadCredential:
        return ""


def credential_problems(policy: Policy) -> list[CredentialProblem]:
    """Secrets that the policy names and that this process cannot read, each with its repos."""
    repos: dict[CredentialSource, list[str]] = defaultdict(list)
    for name, repo in policy.repos.items():
        for source in _sources(repo.ci):
            repos[source].append(name)
    return [
        CredentialProblem(
            kind=source.kind,
            place=source.places,
            repos=names,
            problem=problem.detail,
            hint=problem.hint,
        )
        for source, names in repos.items()
        if (problem := _problem(source)) is not None
    ]


def _sources(ci: CiPolicy) -> Iterator[CredentialSource]:
    if ci.provider in _FORGES:
        sources = (token_source(ci), webhook_secret_source(ci))
        yield from (source for source in sources if source.is_named)


def _problem(source: CredentialSource) -> BadCredential | None:
    try:
        _read(source)
    except BadCredential as problem:
        return problem
    return None


def _read(source: CredentialSource) -> str:
    text = os.environ.get(source.variable, "").strip() if source.variable is not None else ""
    place = f"${source.variable}"
    if not text and source.file is not None:
        path = Path(source.file).expanduser()
        text, place = _file_content(path, source.kind), str(path)
    what = "token" if source.kind == TOKEN else "secret of the webhooks"
    if not text:
        raise BadCredential(f"there is no {what} in {source.places}", f"put the {what} there")
    if source.kind == TOKEN and not _can_be_token(text):
        raise BadCredential(f"the content of {place} is not a token", "put the forge's token there")
    return text


def _file_content(path: Path, kind: str) -> str:
    what = "the token of the forge" if kind == TOKEN else "the secret of the webhooks"
    try:
        content = read_private(path, what)
    except EvidenceUnavailable as error:
        raise BadCredential(
            error.detail, f"write {what} to the file, and `chmod 600 {path}`"
        ) from error
    return content.decode(errors="replace").strip()


def _can_be_token(text: str) -> bool:
    """It is sent in a header."""
    return text.isascii() and text.isprintable() and " " not in text
