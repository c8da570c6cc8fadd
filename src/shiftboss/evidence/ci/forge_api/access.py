"""The address of a repository in the API of a forge, and the token for it."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal
from urllib.parse import quote, urlsplit

from shiftboss.errors import CiUnavailable, EvidenceUnavailable
from shiftboss.protocol.ci import CiDemand
from shiftboss.protocol.policy import CiPolicy
from shiftboss.system.private_files import read_private

# A wrong configuration stays wrong until a person corrects it, so it is rarely tried again.
SET_UP_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Access:
    """`base` is the URL of the repository in the API. The token is never shown."""

    base: str
    authorization: str | None = field(repr=False)

    @property
    def origin(self) -> tuple[str, str]:
        parts = urlsplit(self.base)
        return parts.scheme, parts.netloc

    @property
    def host(self) -> str:
        return urlsplit(self.base).netloc


async def access_to(
    demand: CiDemand, root: str, scheme: Literal["token", "Bearer"], default_url: str | None = None
) -> Access:
    """`root` is the path of the API below the URL of the forge. The token is read every time: a new
    one is used without a restart."""
    policy = demand.policy
    url = policy.url or default_url
    if url is None or policy.repository is None:
        raise _not_set_up(
            f"the policy of {demand.repo} lacks the url or the repository of its forge",
            "set ci.url and ci.repository in shiftboss.yaml",
        )
    if "@" in urlsplit(url).netloc:
        raise _not_set_up(
            f"the forge url of {demand.repo} contains a user name",
            "give the token with ci.token_variable or ci.token_file",
        )
    token = await _token(policy)
    owner, _, name = policy.repository.partition("/")
    path = f"/repos/{quote(owner, safe='')}/{quote(name, safe='')}"
    return Access(f"{url.rstrip('/')}{root}{path}", f"{scheme} {token}" if token else None)


def no_repository(demand: CiDemand, access: Access) -> CiUnavailable:
    """Forges give the same response for a repository that the token may not read."""
    return CiUnavailable(
        f"{access.host} has no actions of {demand.policy.repository}",
        reason="set_up",
        retry_after_seconds=SET_UP_SECONDS,
        hint="check ci.repository, and whether the token may read it",
    )


async def _token(policy: CiPolicy) -> str | None:
    if policy.token_variable is not None:
        return _checked_token(
            os.environ.get(policy.token_variable, ""), f"${policy.token_variable}"
        )
    if policy.token_file is not None:
        return await asyncio.to_thread(_read_token, Path(policy.token_file))
    return None


def _read_token(file: Path) -> str:
    path = file.expanduser()
    try:
        content = read_private(path, "the token of the forge")
    except EvidenceUnavailable as error:
        raise _not_set_up(
            error.detail, f"write the token to the file, and `chmod 600 {path}`"
        ) from error
    return _checked_token(content.decode(errors="replace"), str(path))


def _checked_token(text: str, where: str) -> str:
    """The error must not contain the token."""
    token = text.strip()
    if not token:
        raise _not_set_up(f"there is no token in {where}", "put the forge's token there")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise _not_set_up(f"the content of {where} is not a token", "put the forge's token there")
    return token


def _not_set_up(detail: str, hint: str) -> CiUnavailable:
    return CiUnavailable(detail, reason="set_up", retry_after_seconds=SET_UP_SECONDS, hint=hint)
