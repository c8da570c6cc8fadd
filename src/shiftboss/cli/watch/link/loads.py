"""The requests that fill the model. Each function runs in a thread, and returns parsed values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from shiftboss.cli.common.client import parse_answer, swarm_path
from shiftboss.cli.common.command import ServerSession
from shiftboss.cli.common.open_items import newest_swarms
from shiftboss.cli.watch.model.cards import BoardCard
from shiftboss.cli.watch.model.inbox import Item
from shiftboss.cli.watch.model.summary import Summary

CARDS_PER_PAGE: Final = 1000


class Page(NamedTuple):
    cards: Sequence[BoardCard]
    next_after: str | None
    server_time: int


class SwarmLoad(NamedTuple):
    summary: Summary
    last_event_id: int


def load_swarms(session: ServerSession) -> list[dict[str, Any]]:
    """The newest first."""
    return newest_swarms(session)[0]


def load_swarm(swarm_id: str) -> Callable[[ServerSession], SwarmLoad]:
    def load(session: ServerSession) -> SwarmLoad:
        status = parse_answer(session.client.get(swarm_path(swarm_id, "status")), "bus")
        usage = parse_answer(session.call("show_usage", swarm_id, after="", limit=1), "swarm")
        return SwarmLoad(Summary.of(status, usage), int(status["last_event_id"]))

    return load


def load_workers(swarm_id: str) -> Callable[[ServerSession], list[dict[str, Any]]]:
    def load(session: ServerSession) -> list[dict[str, Any]]:
        document = session.call("list_workers", swarm_id)
        workers: list[dict[str, Any]] = parse_answer(document, "workers")["workers"]
        return workers

    return load


def load_inbox(swarm_id: str | None) -> Callable[[ServerSession], tuple[list[Item], int]]:
    """Of one swarm, or of all."""

    def load(session: ServerSession) -> tuple[list[Item], int]:
        answer = parse_answer(session.client.post("/bus/list_inbox", _of(swarm_id)), "items")
        return [Item.of(item) for item in answer["items"]], int(answer["total"])

    return load


def load_page(swarm_id: str, after: str) -> Callable[[ServerSession], Page]:
    def load(session: ServerSession) -> Page:
        return _page(session.call("list_cards", swarm_id, after=after, limit=CARDS_PER_PAGE))

    return load


def load_cards(swarm_id: str, task_ids: Sequence[str]) -> Callable[[ServerSession], Page]:
    """Only these; those that are gone are left out."""

    def load(session: ServerSession) -> Page:
        return _page(session.call("list_cards", swarm_id, bead_ids=list(task_ids)))

    return load


def _page(document: bytes) -> Page:
    answer = parse_answer(document, "cards")
    cards = [BoardCard.of(card) for card in answer["cards"]]
    return Page(cards, answer.get("next_after"), int(answer["server_time"]))


def _of(swarm_id: str | None) -> dict[str, object]:
    return {} if swarm_id is None else {"swarm_id": swarm_id}
