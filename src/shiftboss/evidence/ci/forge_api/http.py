"""Asking forges: patiently, within their limits, and without giving the token to anybody else."""

from __future__ import annotations

import asyncio
import json
import random
import ssl
import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import urljoin, urlsplit

import httpx2

from shiftboss.errors import CiUnavailable
from shiftboss.evidence.ci.forge_api.access import Access
from shiftboss.evidence.ci.forge_api.lru_cache import LruCache
from shiftboss.evidence.ci.forge_api.rate_limits import (
    RateLimit,
    hold_seconds,
    is_rate_limit,
    used_up_seconds,
)

TIMEOUT: Final = httpx2.Timeout(15.0, connect=5.0)
ALL_SECONDS: Final = 45.0
BODY_BYTES_MAX: Final = 4 * 1024 * 1024
LOG_BYTES_MAX: Final = 64 * 1024 * 1024
LOG_TAIL_BYTES: Final = 16_384
REDIRECTS_MAX: Final = 3
AT_ONCE: Final = 16
# With an answer of this size or less kept for a 304: 4,000 of them are 128 MB at the very worst.
KEPT_BYTES_MAX: Final = 32 * 1024
KEPT_MAX: Final = 4000
TOKEN_SECONDS: Final = 60.0

_REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))


class ForgeResponse(NamedTuple):
    """`unchanged`: the forge said so (304), which costs nothing of its limit."""

    body: Any
    unchanged: bool = False


class _Reply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    content: bytes


class _CachedResponse(NamedTuple):
    etag: str
    body: Any


class ForgeHttp:
    """One pool of connections for all forges. The clocks are arguments for the tests' sake."""

    def __init__(
        self,
        now: Callable[[], float] = time.monotonic,
        epoch: Callable[[], float] = time.time,
    ) -> None:
        self._now = now
        self._epoch = epoch
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._pacings: LruCache[tuple[object, str | None], RateLimit] = LruCache(KEPT_MAX)
        self._kept: LruCache[tuple[Access, str], _CachedResponse] = LruCache(KEPT_MAX)
        self._client: httpx2.AsyncClient | None = None

    async def json(self, access: Access, path: str) -> ForgeResponse | None:
        """The answer to a GET below the repository; None when there is no such thing (404).

        Raises CiUnavailable.
        """
        kept = self._kept.get((access, path))
        headers = {"If-None-Match": kept.etag} if kept is not None else {}
        reply = await self._ask(access, path, headers)
        if reply.status == 304 and kept is not None:
            return ForgeResponse(kept.body, unchanged=True)
        if reply.status == 404:
            return None
        body = _parsed(access, reply)
        etag = reply.headers.get("etag")
        if etag is not None and len(reply.content) <= KEPT_BYTES_MAX:
            self._kept.put((access, path), _CachedResponse(etag, body))
        return ForgeResponse(body)

    async def log_tail(self, access: Access, path: str) -> str | None:
        """The end of a text. GitHub hands logs out at another address; it is asked without the
        token."""
        reply = await self._ask(access, path, {}, is_log=True)
        if reply.status == 404:
            return None
        return reply.content.decode(errors="replace").replace("\0", "\ufffd")

    async def post(self, access: Access, path: str) -> int:
        """Have the forge do something; the status that it answers. That a token may not do it says
        nothing about what it may read, so the forge is asked on for the rest.

        Raises CiUnavailable.
        """
        return (await self._ask(access, path, {}, method="POST")).status

    def wait_seconds(self, access: Access) -> float:
        """How long the forge wants to be left alone."""
        return self._pacing_of(access).wait_seconds(self._now())

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def _ask(
        self,
        access: Access,
        path: str,
        headers: dict[str, str],
        *,
        is_log: bool = False,
        method: Literal["GET", "POST"] = "GET",
    ) -> _Reply:
        pacing = self._pacing_of(access)
        async with self._turns:
            started_at = self._now()
            if pacing.wait_seconds(started_at) > 0:
                raise self._held(access, pacing)
            try:
                async with asyncio.timeout(ALL_SECONDS):
                    reply = await self._exchange(
                        access, access.base + path, headers, is_log, method
                    )
            except (httpx2.HTTPError, TimeoutError) as error:
                what = f"gave no answer ({type(error).__name__})"
                raise self._down(access, pacing, started_at, what) from error
            self._judge(access, pacing, started_at, reply, asks=method == "GET")
            return reply

    def _pacing_of(self, access: Access) -> RateLimit:
        """Forges count by token, not by repository."""
        key = (access.origin, access.authorization)
        pacing = self._pacings.get(key)
        if pacing is None:
            pacing = RateLimit()
            self._pacings.put(key, pacing)
        return pacing

    async def _exchange(
        self, access: Access, url: str, headers: dict[str, str], is_log: bool, method: str
    ) -> _Reply:
        own = {"Accept": "application/json", "User-Agent": "shiftboss", **headers}
        if access.authorization is not None:
            own["Authorization"] = access.authorization
        for _ in range(REDIRECTS_MAX):
            reply = await self._read(access, url, own, is_log, method)
            if reply.status not in _REDIRECTS or method != "GET":
                return reply
            url = urljoin(url, reply.headers.get("location", ""))
            if _origin(url) != access.origin:
                if not is_log or not _may_leave(access, url):
                    raise _odd(access, "sends us to another host; that is not followed")
                own.pop("Authorization", None)
        raise _odd(access, "sends us in a circle")

    async def _read(
        self, access: Access, url: str, headers: dict[str, str], is_log: bool, method: str
    ) -> _Reply:
        if self._client is None:
            self._client = httpx2.AsyncClient(
                timeout=TIMEOUT, trust_env=False, follow_redirects=False, verify=_authorities()
            )
        content = bytearray()
        read = 0
        async with self._client.stream(method, url, headers=headers) as response:
            async for chunk in response.aiter_bytes():
                content += chunk
                read += len(chunk)
                if is_log:
                    del content[:-LOG_TAIL_BYTES]
                if read > (LOG_BYTES_MAX if is_log else BODY_BYTES_MAX):
                    raise _odd(access, "answered more than we read")
            return _Reply(response.status_code, response.headers, bytes(content))

    def _judge(
        self, access: Access, pacing: RateLimit, started_at: float, reply: _Reply, *, asks: bool
    ) -> None:
        """`asks`: for something to read; else any refusal is an answer."""
        status, headers = reply.status, reply.headers
        if status >= 500:
            raise self._down(access, pacing, started_at, f"answered {status}")
        pacing.answered()
        if is_rate_limit(status, headers, reply.content):
            pacing.hold(self._now() + hold_seconds(headers, self._epoch()), "rate_limit")
            raise self._held(access, pacing)
        if status == 401 or (status == 403 and asks):
            pacing.hold(self._now() + TOKEN_SECONDS, "token")
            raise self._held(access, pacing)
        if asks and status not in (200, 304, 404):
            raise _odd(access, f"answered {status}")
        used_up = used_up_seconds(headers, self._epoch())
        if used_up is not None:
            pacing.hold(self._now() + used_up, "rate_limit")

    def _down(
        self, access: Access, pacing: RateLimit, started_at: float, what: str
    ) -> CiUnavailable:
        chance = random.random()  # noqa: S311 - nothing to guess here
        seconds = pacing.failed(started_at, self._now(), chance)
        return CiUnavailable(
            f"{access.host} {what}",
            reason="down",
            retry_after_seconds=seconds,
            hint="it is asked again later; nothing has to be pushed again",
        )

    def _held(self, access: Access, pacing: RateLimit) -> CiUnavailable:
        detail, hint = {
            "down": ("does not answer at the moment", "it is asked again later"),
            "rate_limit": ("wants fewer questions", "it is asked again later"),
            "token": (
                "refused the token: it was revoked, or may not read actions"
                if access.authorization is not None
                else "wants a token",
                "give a new one where ci.token_variable or ci.token_file says",
            ),
        }[pacing.reason]
        return CiUnavailable(
            f"{access.host} {detail}",
            reason=pacing.reason,
            retry_after_seconds=pacing.wait_seconds(self._now()),
            hint=hint,
        )


@cache
def _authorities() -> ssl.SSLContext:
    """Loading them takes a while; once is enough."""
    return httpx2.create_ssl_context()


def _parsed(access: Access, reply: _Reply) -> Any:
    """Nothing at all and `null` are what some forges say when there is nothing yet."""
    if not reply.content.strip():
        return None
    try:
        return json.loads(reply.content)
    except ValueError:
        raise _odd(access, "answered with something that is not JSON") from None


def _odd(access: Access, what: str) -> CiUnavailable:
    return CiUnavailable(
        f"{access.host} {what}",
        reason="answer",
        retry_after_seconds=TOKEN_SECONDS,
        hint="look whether ci.url is the address of the forge",
    )


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


def _may_leave(access: Access, url: str) -> bool:
    """Never from https to something that others can read."""
    scheme = urlsplit(url).scheme
    return scheme == "https" or (scheme == "http" and access.origin[0] == "http")
