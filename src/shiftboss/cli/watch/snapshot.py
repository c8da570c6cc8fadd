"""The board and the inbox once, for scripts and for terminals that cannot show the whole screen."""

from __future__ import annotations

import sys
import time
from typing import Any

from rich.segment import Segment
from rich.text import Text

from shiftboss.cli.common.client import parse_answer, swarm_path
from shiftboss.cli.common.command import Output, ServerSession
from shiftboss.cli.common.output import console, print_line
from shiftboss.cli.watch.link.loads import CARDS_PER_PAGE, load_swarms
from shiftboss.cli.watch.model.card_lines import board_head, row_segments
from shiftboss.cli.watch.model.cards import Board, BoardCard
from shiftboss.cli.watch.model.inbox import Item, inbox_head, item_segments
from shiftboss.cli.watch.model.state import newest_with_work
from shiftboss.cli.watch.model.summary import Summary, header_line
from shiftboss.errors import NotFound

PIPE_COLUMNS = 160


def snapshot(session: ServerSession, swarm_id: str | None) -> Output:
    watched = swarm_id or newest_with_work(load_swarms(session))
    if watched is None:
        raise NotFound("there is no swarm yet", hint="run a plan: shiftboss run plan.yaml")
    status = parse_answer(session.client.get(swarm_path(watched, "status")), "bus")
    usage = parse_answer(session.call("show_usage", watched, after="", limit=1), "swarm")
    inbox = parse_answer(
        session.client.post("/bus/list_inbox", {"swarm_id": swarm_id} if swarm_id else {}), "items"
    )
    cards = _all_cards(session, watched)
    document = {"status": status, "usage": usage, "cards": cards, "inbox": inbox}
    return Output.of(document, lambda: _show(document))


def _all_cards(session: ServerSession, swarm_id: str) -> list[dict[str, Any]]:
    cards: list[dict[str, Any]] = []
    after: str | None = ""
    while after is not None:
        document = session.call("list_cards", swarm_id, after=after, limit=CARDS_PER_PAGE)
        page = parse_answer(document, "cards")
        cards += page["cards"]
        after = page.get("next_after")
    return cards


def _show(document: dict[str, Any]) -> None:
    width = console().width if sys.stdout.isatty() else PIPE_COLUMNS
    now_ms, items = int(time.time() * 1000), document["inbox"]["items"]
    summary = Summary.of(document["status"], document["usage"])
    print_line(header_line(summary, document["inbox"]["total"], now_ms, width).plain)
    board = Board()
    board.put(BoardCard.of(card) for card in document["cards"])
    _print(board_head(width))
    for row in (board[number] for number in range(len(board))):
        _print(row_segments(row, now_ms, width))
    if items:
        _print(inbox_head(width))
    for item in items:
        _print(item_segments(Item.of(item), now_ms, width))


def _print(segments: list[Segment]) -> None:
    line = Text()
    for text, style, _ in segments:
        line.append(text, style)
    line.rstrip()
    console().print(line, soft_wrap=True)
