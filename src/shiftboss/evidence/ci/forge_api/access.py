"""The address of a repository in the API of a forge, and the token for it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import quote, urlsplit

from shiftboss.errors import CiUnavailable
from shiftboss.evidence.ci.credentials import BadCredential, read_token
from shiftboss.protocol.ci import CiDemand
from shiftboss.protocol.policy import CiPolicy

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
    try:
        return await asyncio.to_thread(read_token, policy)
    except BadCredential as problem:
        raise _not_set_up(problem.detail, problem.hint) from problem


def _not_set_up(detail: str, hint: str) -> CiUnavailable:
    return CiUnavailable(detail, reason="set_up", retry_after_seconds=SET_UP_SECONDS, hint=hint)
