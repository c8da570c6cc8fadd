"""Where a forge is asked, and as whom."""

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

# The set-up is wrong until somebody mends it; no need to look often.
SET_UP_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Access:
    """`base` is the address of the repository in the forge's API. The token shows nowhere."""

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
    """`root` is the path of the API below the forge's address. The token is read every time, so a
    new one is used without a restart."""
    policy = demand.policy
    url = policy.url or default_url
    if url is None or policy.repository is None:
        raise _not_set_up(
            f"the policy of {demand.repo} names no url or no repository of its forge",
            "set ci.url and ci.repository in shiftboss.yaml",
        )
    if "@" in urlsplit(url).netloc:
        raise _not_set_up(
            f"the url of the forge of {demand.repo} has a user name in it",
            "give the token by ci.token_variable or ci.token_file",
        )
    token = await _token(policy)
    owner, _, name = policy.repository.partition("/")
    path = f"/repos/{quote(owner, safe='')}/{quote(name, safe='')}"
    return Access(f"{url.rstrip('/')}{root}{path}", f"{scheme} {token}" if token else None)


def no_repository(demand: CiDemand, access: Access) -> CiUnavailable:
    """Forges say the same of a repository that the token may not see."""
    return CiUnavailable(
        f"{access.host} knows no actions of {demand.policy.repository}",
        reason="set_up",
        retry_after_seconds=SET_UP_SECONDS,
        hint="look at ci.repository, and whether the token may read it",
    )


async def _token(policy: CiPolicy) -> str | None:
    if policy.token_variable is not None:
        return _checked(os.environ.get(policy.token_variable, ""), f"${policy.token_variable}")
    if policy.token_file is not None:
        return await asyncio.to_thread(_token_in, Path(policy.token_file))
    return None


def _token_in(file: Path) -> str:
    path = file.expanduser()
    try:
        content = read_private(path, "the token of the forge")
    except EvidenceUnavailable as error:
        raise _not_set_up(error.detail, f"`chmod 600 {path}`, with the token in it") from error
    return _checked(content.decode(errors="replace"), str(path))


def _checked(text: str, where: str) -> str:
    """What is wrong with it is told without it."""
    token = text.strip()
    if not token:
        raise _not_set_up(f"there is no token in {where}", "put the forge's token there")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise _not_set_up(f"what is in {where} is not a token", "put the forge's token there")
    return token


def _not_set_up(detail: str, hint: str) -> CiUnavailable:
    return CiUnavailable(detail, reason="set_up", retry_after_seconds=SET_UP_SECONDS, hint=hint)
