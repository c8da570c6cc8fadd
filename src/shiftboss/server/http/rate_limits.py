"""Rate limits: a token bucket per client address, and a smaller one for refused requests.

They keep one client from using the server up. A swarm of a thousand workers on one machine, which
is one client, stays far below the limit.
"""

from __future__ import annotations

import ipaddress
import logging
import time
from collections.abc import Callable
from typing import Final

from shiftboss.defaults import REQUESTS_PER_SECOND
from shiftboss.errors import TooManyRequests

log = logging.getLogger(__name__)

# Guesses of a token, and web pages that try. Workers with the token are not held up by them.
REFUSALS_PER_SECOND: Final = 50
# A client that was quiet may send the requests of this many seconds at once.
BURST_SECONDS: Final = 4.0
# How many clients are remembered. Then those are forgotten that have not used up anything.
CLIENTS_MAX: Final = 10_000
# One line per client and interval.
LOG_SECONDS: Final = 60.0

_UNLIMITED: Final = 1e12
# An IPv6 client has a network of addresses.
_V6_CLIENT_BITS: Final = 64
_LOOPBACK: Final = "127.0.0.1"


class TokenBucket:
    """It is filled up only when it is empty, so that most requests need not ask for the time. A
    client that was quiet may use up a full bucket twice."""

    def __init__(self, per_second: float, now: float) -> None:
        self._per_second = per_second
        self._size = per_second * BURST_SECONDS
        self._tokens = self._size
        self._filled = now

    def take(self, clock: Callable[[], float]) -> bool:
        if self._tokens < 1.0:
            now = clock()
            self._tokens += (now - self._filled) * self._per_second
            self._tokens = min(self._tokens, self._size)
            self._filled = now
            if self._tokens < 1.0:
                return False
        self._tokens -= 1.0
        return True

    def seconds_until_next(self) -> float:
        return max(0.0, 1.0 - self._tokens) / self._per_second

    def is_full(self, now: float) -> bool:
        return self._tokens + (now - self._filled) * self._per_second >= self._size


class ClientRate:
    """What one client has used."""

    def __init__(self, client: str, per_second: float, clock: Callable[[], float]) -> None:
        now = clock()
        self._client = client
        self._clock = clock
        self._requests = TokenBucket(per_second, now)
        self._refusals = TokenBucket(min(per_second, REFUSALS_PER_SECOND), now)
        self._logged = now - LOG_SECONDS

    def admits(self) -> bool:
        return self._requests.take(self._clock)

    def check(self) -> None:
        """Raises TooManyRequests."""
        if not self.admits():
            raise self._refuse("requests", self._requests)

    def check_refusal(self) -> None:
        """For a request that access control refuses. Raises TooManyRequests."""
        if not self._refusals.take(self._clock):
            raise self._refuse("refused requests", self._refusals)

    def is_unused(self) -> bool:
        now = self._clock()
        return self._requests.is_full(now) and self._refusals.is_full(now)

    def _refuse(self, what: str, bucket: TokenBucket) -> TooManyRequests:
        now = self._clock()
        if now - self._logged >= LOG_SECONDS:
            self._logged = now
            log.warning("too many %s from %s: they are answered with 429", what, self._client)
        return TooManyRequests(f"too many {what} from {self._client}", bucket.seconds_until_next())


class RateLimits:
    """The limits of all clients. `per_second` 0: no limits."""

    def __init__(
        self, per_second: float = REQUESTS_PER_SECOND, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_second = per_second or _UNLIMITED
        self._clock = clock
        self._clients: dict[str, ClientRate] = {}

    def of(self, address: str) -> ClientRate:
        client = _client_of(address)
        rate = self._clients.get(client)
        if rate is None:
            if len(self._clients) >= CLIENTS_MAX:
                self._forget_unused()
            rate = self._clients[client] = ClientRate(client, self._per_second, self._clock)
        return rate

    def _forget_unused(self) -> None:
        """If nobody is unused, everybody is forgotten: the memory is limited in any case."""
        self._clients = {
            client: rate for client, rate in self._clients.items() if not rate.is_unused()
        }
        if len(self._clients) >= CLIENTS_MAX:
            self._clients = {}


def _client_of(address: str) -> str:
    if ":" not in address:
        # A process of this machine can use any of these.
        return _LOOPBACK if address.startswith("127.") else address
    try:
        parsed = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.ipv4_mapped is not None:  # the server listens on `::`, for both kinds
        return _client_of(str(parsed.ipv4_mapped))
    return str(ipaddress.IPv6Network((parsed, _V6_CLIENT_BITS), strict=False))
