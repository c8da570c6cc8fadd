"""The servers on one database: which of them live, and in what they differ.

Servers of one deployment need the same operator's token and the same policy, and versions that work
together. Each has a signing key of its own, or they share one: both are fine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple

from shiftboss.rules.deployment.records import DeploymentServer

# A server renews its row this often, and counts as gone when it has missed three renewals.
RENEWAL_SECONDS: Final = 10.0
LIVING_MS: Final = 35_000
# How long the rows of servers that are gone are kept.
KEPT_MS: Final = 24 * 3600 * 1000

# Beside the version. What is compared is written at once when it changes.
COMPARED_FACTS: Final = frozenset({"operator_token", "token", "policy", "key_id"})

Severity = Literal["information", "warning", "problem"]


class Difference(NamedTuple):
    """In what the living servers differ, and what to do about it."""

    name: Literal["version", "operator_token", "token", "policy", "key"]
    severity: Severity
    detail: str
    todo: str


def is_living(server: DeploymentServer, now_ms: int) -> bool:
    return server.stopped_at_ms is None and server.seen_at_ms > now_ms - LIVING_MS


def living_servers(servers: Sequence[DeploymentServer], now_ms: int) -> list[DeploymentServer]:
    """Without those that crashed, and were started again at the same address since."""
    started: dict[tuple[str, str], int] = {}
    for server in servers:
        place = (server.host, server.address)
        started[place] = max(started.get(place, 0), server.started_at_ms)
    return [
        server
        for server in servers
        if is_living(server, now_ms)
        and not (server.address and server.seen_at_ms < started[server.host, server.address])
    ]


def facts_of(server: DeploymentServer) -> Mapping[str, Any]:
    """What a server says about itself. A newer version may say more, an older one less."""
    try:
        facts = json.loads(server.facts)
    except ValueError:
        return {}
    return facts if isinstance(facts, dict) else {}


def polling_at(servers: Iterable[DeploymentServer]) -> dict[str, frozenset[str]]:
    """By swarm, the workers that wait for a task at these servers. An older version tells none."""
    polling: dict[str, frozenset[str]] = {}
    for server in servers:
        told_polling = facts_of(server).get("polling")
        for swarm_id, names in told_polling.items() if isinstance(told_polling, dict) else ():
            polling[swarm_id] = polling.get(swarm_id, frozenset()) | frozenset(map(str, names))
    return polling


def token_mark(digests: Sequence[bytes]) -> str | None:
    """Of the SHA-256 of the tokens that a server accepts for the same purpose. Sixteen bits: enough
    to see that two servers have different tokens, and no help for guessing one."""
    if not digests:
        return None
    return sha256(b"shiftboss server" + b"".join(digests)).hexdigest()[:4]


def find_differences(
    living: Sequence[DeploymentServer], retired_keys: Collection[str]
) -> list[Difference]:
    """The worst first."""
    differences = [
        *_versions(living),
        *_tokens(living, "operator_token", "operator's token", _OPERATOR_TODO),
        *_tokens(living, "token", "token that workers send", _SHARED_TODO),
        *_policies(living),
        *_keys(living, retired_keys),
    ]
    order: list[Severity] = ["problem", "warning", "information"]
    return sorted(differences, key=lambda difference: order.index(difference.severity))


_OPERATOR_TODO: Final = (
    "start all of them with the same SHIFTBOSS_OPERATOR_TOKEN, or copy the file operator-token of "
    "one state folder to the others and send them SIGHUP"
)
_SHARED_TODO: Final = "give all of them the same --token-file, and send them SIGHUP"
_POLICY_TODO: Final = (
    "all go by the newest version (`shiftboss policy history`); if one stays behind, its log says "
    "why. Restart it, or upgrade it"
)


def _versions(living: Sequence[DeploymentServer]) -> Iterable[Difference]:
    groups = _groups(living, lambda server: server.version)
    if len(groups) < 2:
        return
    apart = not all(work_together(version, other) for version in groups for other in groups)
    yield Difference(
        "version",
        "problem" if apart else "information",
        f"the servers have different versions: {_list(groups)}",
        "upgrade all of them to the same version, one after the other",
    )


def _tokens(
    living: Sequence[DeploymentServer], fact: str, what: str, todo: str
) -> Iterable[Difference]:
    """The digests are not shown."""
    groups = _groups(living, lambda server: facts_of(server).get(fact))
    if len(groups) > 1:
        name: Literal["operator_token", "token"] = "token" if fact == "token" else "operator_token"
        text = "; ".join(", ".join(servers) for servers in groups.values())
        yield Difference(name, "warning", f"the {what} differs between the servers: {text}", todo)


def _policies(living: Sequence[DeploymentServer]) -> Iterable[Difference]:
    groups = _groups(living, lambda server: facts_of(server).get("policy"))
    if len(groups) > 1:
        text = _list({policy[:12]: servers for policy, servers in groups.items()})
        detail = f"different policies are in force: {text}"
        yield Difference("policy", "warning", detail, _POLICY_TODO)


def _keys(living: Sequence[DeploymentServer], retired: Collection[str]) -> Iterable[Difference]:
    groups = _groups(living, lambda server: facts_of(server).get("key_id"))
    for key_id in groups:
        if key_id in retired:
            yield Difference(
                "key",
                "problem",
                f"the signing key {key_id} is retired, and {', '.join(groups[key_id])} still has "
                "it: it signs no receipts",
                "the log of that server says why it cannot replace its key file",
            )
    if len(groups) > 1:
        yield Difference(
            "key",
            "information",
            f"the servers sign with different keys: {_list(groups)}",
            "that is fine: receipts verify with the key that they name. To share one, start all "
            "servers with the same --key-file",
        )


def _groups(
    living: Sequence[DeploymentServer], value_of: Callable[[DeploymentServer], object]
) -> dict[str, list[str]]:
    """The addresses of the servers by a value. Servers that do not say it are left out."""
    groups: dict[str, list[str]] = {}
    for server in living:
        value = value_of(server)
        if isinstance(value, str) and value:
            groups.setdefault(value, []).append(server.address or server.server_id)
    return groups


def _list(groups: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(f"{value} at {', '.join(servers)}" for value, servers in groups.items())


# Two servers may differ by so many minor versions: one is upgraded after the other.
MINOR_VERSIONS_APART_MAX: Final = 1
_VERSION: Final = re.compile(r"(\d{1,6})\.(\d{1,6})\.", re.ASCII)


def work_together(version: str, other: str) -> bool:
    """Whether servers of these versions may use one database at the same time. A version that
    cannot be read works with its equals only."""
    first, second = _VERSION.match(version), _VERSION.match(other)
    if first is None or second is None:
        return version == other
    if first[1] != second[1]:
        return False
    return abs(int(first[2]) - int(second[2])) <= MINOR_VERSIONS_APART_MAX
