"""The operations of the board, for the page and the terminal. Agents have tools of their own."""

from __future__ import annotations

from operator import attrgetter

from shiftboss.coordinator.board.service import BoardService
from shiftboss.protocol.board import cards, inbox, workers
from shiftboss.rules.access.roles import Permission
from shiftboss.server.operations.operation import Operation

_service = attrgetter("board")

BOARD_OPERATIONS: dict[str, Operation] = {
    "list_cards": Operation(
        cards.ListCardsRequest,
        cards.CardList,
        BoardService.list_cards,
        "List the tasks as the cards of the board, each with the reason why it is where it is.",
        Permission.READ,
        reads=True,
        service=_service,
        is_tool=False,
    ),
    "list_inbox": Operation(
        inbox.ListInboxRequest,
        inbox.Inbox,
        BoardService.list_inbox,
        "List what waits for a person, in one swarm or in all of them.",
        Permission.READ,
        reads=True,
        service=_service,
        is_tool=False,
    ),
    "list_workers": Operation(
        workers.ListWorkersRequest,
        workers.WorkerList,
        BoardService.list_workers,
        "List the workers of a swarm, each with its task and where it is with it.",
        Permission.READ,
        reads=True,
        service=_service,
        is_tool=False,
    ),
}
