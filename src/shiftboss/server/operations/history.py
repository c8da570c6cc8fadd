"""The operations about what has happened. The page and the terminal use them; MCP has no tools for
them: an agent is told what concerns it."""

from __future__ import annotations

from operator import attrgetter

from shiftboss.coordinator.history.service import HistoryService
from shiftboss.protocol import history as calls
from shiftboss.protocol.claims.diffs import DiffAnswer, ShowDiffRequest
from shiftboss.rules.access.roles import Permission
from shiftboss.server.operations.operation import Operation

_service = attrgetter("history")

HISTORY_OPERATIONS: dict[str, Operation] = {
    "list_events": Operation(
        calls.ListEventsRequest,
        calls.EventList,
        HistoryService.list_events,
        "List the events of a swarm or of a task, newest first, or with after oldest first.",
        Permission.READ,
        reads=True,
        service=_service,
        is_tool=False,
    ),
    "list_task_claims": Operation(
        calls.ListTaskClaimsRequest,
        calls.TaskClaimList,
        HistoryService.list_task_claims,
        "List the claims of a task with their verdicts, check by check, newest first.",
        Permission.READ,
        reads=True,
        service=_service,
        is_tool=False,
    ),
    "read_log": Operation(
        calls.ReadLogRequest,
        calls.LogAnswer,
        HistoryService.read_log,
        "Read what the agent of a task printed, as lines for people, a page at a time.",
        Permission.READ,
        reads=True,
        service=_service,
        is_tool=False,
    ),
    "replay_swarm": Operation(
        calls.ReplaySwarmRequest,
        calls.ReplayAnswer,
        HistoryService.replay_swarm,
        "Show the tasks and workers of a swarm as they were after one of its events.",
        Permission.READ,
        reads=True,
        service=_service,
        is_tool=False,
    ),
    "show_diff": Operation(
        ShowDiffRequest,
        DiffAnswer,
        HistoryService.show_diff,
        "Show the work of a task: of a claim, as it landed, or so far on its branch.",
        Permission.READ,
        reads=True,
        service=_service,
        is_tool=False,
    ),
}
