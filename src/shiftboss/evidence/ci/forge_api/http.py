"""The HTTP client for forges: respects their limits and sends the token to no other host."""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
from collections.abc import Callable, Mapping
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
from shiftboss.system.tls import system_context

TIMEOUT: Final = httpx2.Timeout(15.0, connect=5.0)
ALL_SECONDS: Final = 45.0
BODY_BYTES_MAX: Final = 4 * 1024 * 1024
LOG_BYTES_MAX: Final = 64 * 1024 * 1024
LOG_TAIL_BYTES: Final = 16_384
REDIRECTS_MAX: Final = 3
REQUESTS_MAX: Final = 16
# Responses of at most this size are cached for a 304: 4,000 of them take at most 128 MB.
CACHED_BYTES_MAX: Final = 32 * 1024
CACHED_MAX: Final = 4000
TOKEN_SECONDS: Final = 60.0

_NEXT_LINK: Final = re.compile(r"""rel=["']?next\b""", re.IGNORECASE)
_REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))


class ForgeResponse(NamedTuple):
    """`unchanged`: the forge answered 304, which does not count towards its rate limit. `has_next`:
    whether it links to a next page. None: it links to no pages."""

    body: Any
    unchanged: bool = False
    has_next: bool | None = None


class _Reply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    content: bytes


class _CachedResponse(NamedTuple):
    etag: str
    body: Any
    has_next: bool | None


class ForgeHttp:
    """One connection pool for all forges. The clocks are arguments for tests."""

    def __init__(
        self,
        now: Callable[[], float] = time.monotonic,
        epoch: Callable[[], float] = time.time,
    ) -> None:
        self._now = now
        self._epoch = epoch
        self._slots = asyncio.Semaphore(REQUESTS_MAX)
        self._rate_limits: LruCache[tuple[object, str | None], RateLimit] = LruCache(CACHED_MAX)
        self._cache: LruCache[tuple[Access, str], _CachedResponse] = LruCache(CACHED_MAX)
        self._client: httpx2.AsyncClient | None = None

    async def json(self, access: Access, path: str) -> ForgeResponse | None:
        """The response to a GET below the repository; None for a 404.

        Raises CiUnavailable.
        """
        cached = self._cache.get((access, path))
        headers = {"If-None-Match": cached.etag} if cached is not None else {}
        reply = await self._request(access, path, headers)
        if reply.status == 304 and cached is not None:
            return ForgeResponse(cached.body, True, cached.has_next)
        if reply.status == 404:
            return None
        body = _parsed(access, reply)
        has_next = _has_next(reply.headers.get("link"))
        etag = reply.headers.get("etag")
        if etag is not None and len(reply.content) <= CACHED_BYTES_MAX:
            self._cache.put((access, path), _CachedResponse(etag, body, has_next))
        return ForgeResponse(body, has_next=has_next)

    async def log_tail(self, access: Access, path: str) -> str | None:
        """The end of a text; None for a 404. GitHub redirects to another host for logs; that host
        does not get the token."""
        reply = await self._request(access, path, {}, is_log=True)
        if reply.status == 404:
            return None
        return reply.content.decode(errors="replace").replace("\0", "\ufffd")

    async def post(self, access: Access, path: str) -> int:
        """The status of the response to a POST. A refusal does not stop other requests, because a
        token that may not write may still read.

        Raises CiUnavailable.
        """
        return (await self._request(access, path, {}, method="POST")).status

    def wait_seconds(self, access: Access) -> float:
        """How long to wait before the next request."""
        return self._rate_limit(access).wait_seconds(self._now())

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def _request(
        self,
        access: Access,
        path: str,
        headers: dict[str, str],
        *,
        is_log: bool = False,
        method: Literal["GET", "POST"] = "GET",
    ) -> _Reply:
        rate_limit = self._rate_limit(access)
        async with self._slots:
            started_at = self._now()
            if rate_limit.wait_seconds(started_at) > 0:
                raise self._on_hold(access, rate_limit)
            try:
                async with asyncio.timeout(ALL_SECONDS):
                    reply = await self._exchange(
                        access, access.base + path, headers, is_log, method
                    )
            except (httpx2.HTTPError, TimeoutError) as error:
                what = f"did not answer ({type(error).__name__})"
                raise self._down(access, rate_limit, started_at, what) from error
            self._check(access, rate_limit, started_at, reply, reads=method == "GET")
            return reply

    def _rate_limit(self, access: Access) -> RateLimit:
        """Forges count requests by token, not by repository."""
        key = (access.origin, access.authorization)
        rate_limit = self._rate_limits.get(key)
        if rate_limit is None:
            rate_limit = RateLimit()
            self._rate_limits.put(key, rate_limit)
        return rate_limit

    async def _exchange(
        self, access: Access, url: str, headers: dict[str, str], is_log: bool, method: str
    ) -> _Reply:
        request_headers = {"Accept": "application/json", "User-Agent": "shiftboss", **headers}
        if access.authorization is not None:
            request_headers["Authorization"] = access.authorization
        for _ in range(REDIRECTS_MAX):
            reply = await self._read(access, url, request_headers, is_log, method)
            if reply.status not in _REDIRECTS or method != "GET":
                return reply
            url = urljoin(url, reply.headers.get("location", ""))
            if _origin(url) != access.origin:
                if not is_log or not _may_follow(access, url):
                    raise _unexpected(access, "redirects to another host")
                request_headers.pop("Authorization", None)
        raise _unexpected(access, "redirects too often")

    async def _read(
        self, access: Access, url: str, headers: dict[str, str], is_log: bool, method: str
    ) -> _Reply:
        if self._client is None:
            self._client = httpx2.AsyncClient(
                timeout=TIMEOUT, trust_env=False, follow_redirects=False, verify=system_context()
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
                    raise _unexpected(access, "sent too large a response")
            return _Reply(response.status_code, response.headers, bytes(content))

    def _check(
        self,
        access: Access,
        rate_limit: RateLimit,
        started_at: float,
        reply: _Reply,
        *,
        reads: bool,
    ) -> None:
        """`reads`: a refusal is an error. Otherwise it is a result for the caller."""
        status, headers = reply.status, reply.headers
        if status >= 500:
            raise self._down(access, rate_limit, started_at, f"answered {status}")
        rate_limit.answered()
        if is_rate_limit(status, headers, reply.content):
            rate_limit.hold(self._now() + hold_seconds(headers, self._epoch()), "rate_limit")
            raise self._on_hold(access, rate_limit)
        if status == 401 or (status == 403 and reads):
            rate_limit.hold(self._now() + TOKEN_SECONDS, "token")
            raise self._on_hold(access, rate_limit)
        if reads and status not in (200, 304, 404):
            raise _unexpected(access, f"answered {status}")
        used_up = used_up_seconds(headers, self._epoch())
        if used_up is not None:
            rate_limit.hold(self._now() + used_up, "rate_limit")

    def _down(
        self, access: Access, rate_limit: RateLimit, started_at: float, what: str
    ) -> CiUnavailable:
        chance = random.random()  # noqa: S311 - not a secret
        seconds = rate_limit.failed(started_at, self._now(), chance)
        return CiUnavailable(
            f"{access.host} {what}",
            reason="down",
            retry_after_seconds=seconds,
            hint="the request is repeated later; do not push again",
        )

    def _on_hold(self, access: Access, rate_limit: RateLimit) -> CiUnavailable:
        detail, hint = {
            "down": ("does not answer at the moment", "the request is repeated later"),
            "rate_limit": ("limits our requests", "the request is repeated later"),
            "token": (
                "refused the token: it was revoked, or may not read actions"
                if access.authorization is not None
                else "requires a token",
                "put a new one where ci.token_variable or ci.token_file points",
            ),
        }[rate_limit.reason]
        return CiUnavailable(
            f"{access.host} {detail}",
            reason=rate_limit.reason,
            retry_after_seconds=rate_limit.wait_seconds(self._now()),
            hint=hint,
        )


def _parsed(access: Access, reply: _Reply) -> Any:
    """Some forges send an empty body or `null` for an empty list."""
    if not reply.content.strip():
        return None
    try:
        return json.loads(reply.content)
    except (ValueError, RecursionError):
        raise _unexpected(access, "sent a response that is not JSON") from None


def _unexpected(access: Access, what: str) -> CiUnavailable:
    return CiUnavailable(
        f"{access.host} {what}",
        reason="answer",
        retry_after_seconds=TOKEN_SECONDS,
        hint="check whether ci.url is the address of the forge",
    )


def _has_next(links: str | None) -> bool | None:
    """From the Link header: `<https://...page=2>; rel="next", <...>; rel="last"`."""
    return None if not links else _NEXT_LINK.search(links) is not None


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


def _may_follow(access: Access, url: str) -> bool:
    """Never from https to http."""
    scheme = urlsplit(url).scheme
    return scheme == "https" or (scheme == "http" and access.origin[0] == "http")
