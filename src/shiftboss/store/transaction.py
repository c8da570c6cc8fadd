"""The transaction of both stores: runs named queries and converts their rows."""

from __future__ import annotations

from collections.abc import Mapping

from shiftboss.errors import UnknownSwarm
from shiftboss.protocol.events import Event
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.swarms import Swarm
from shiftboss.rules.tasks.tasks import Task
from shiftboss.store.board.rows import BoardRows
from shiftboss.store.bus.port import TakenTask, TakenWorker
from shiftboss.store.bus.rows import BusRows, taken_worker
from shiftboss.store.contract.rows import ContractRows
from shiftboss.store.deployment.rows import DeploymentRows
from shiftboss.store.handoffs.rows import HandoffRows
from shiftboss.store.inspection.rows import InspectionRows
from shiftboss.store.monitoring.rows import MonitoringRows
from shiftboss.store.notifications.rows import NotificationRows
from shiftboss.store.port import EventFilter, Retry, SwarmRow
from shiftboss.store.runs.cleaning_rows import CleaningRows
from shiftboss.store.runs.rows import RunRows
from shiftboss.store.transaction_part import (
    ASSIGNMENT_COLUMNS,
    Parameters,
    Row,
    event_text,
    to_assignment,
)

EVENTS_SEARCHED_MAX = 5000


class SqlTransaction(
    BusRows,
    HandoffRows,
    ContractRows,
    RunRows,
    CleaningRows,
    InspectionRows,
    DeploymentRows,
    MonitoringRows,
    NotificationRows,
    BoardRows,
):
    """Implements `shiftboss.store.port.Transaction`."""

    # -- reading

    def swarm(self, swarm_id: str) -> Swarm | None:
        return _swarm(self._session.fetch_one("swarm", {"swarm_id": swarm_id}))

    def swarms_before(self, before: tuple[int, str] | None, limit: int) -> list[SwarmRow]:
        if before is None:
            rows = self._session.fetch_all("swarms_newest", {"limit": limit})
        else:
            rows = self._session.fetch_all(
                "swarms_before", {"before_ms": before[0], "before_id": before[1], "limit": limit}
            )
        swarms = [swarm for row in rows if (swarm := _swarm(row))]
        return [SwarmRow(swarm, self.state_counts(swarm.swarm_id)) for swarm in swarms]

    def assignments(self, swarm_id: str) -> list[Assignment]:
        rows = self._session.fetch_all("assignments", {"swarm_id": swarm_id})
        return [to_assignment(row) for row in rows]

    def assignment(self, swarm_id: str, task_id: str) -> Assignment | None:
        row = self._session.fetch_one("assignment", {"swarm_id": swarm_id, "task_id": task_id})
        return None if row is None else to_assignment(row)

    def all_assignments(self, swarm_id: str) -> list[Assignment]:
        rows = self._session.fetch_all("all_assignments", {"swarm_id": swarm_id})
        return [to_assignment(row) for row in rows]

    def open_retries(self, swarm_id: str) -> list[Retry]:
        rows = self._session.fetch_all("open_retries", {"swarm_id": swarm_id})
        return [Retry._make(row) for row in rows]

    def state_counts(self, swarm_id: str) -> Mapping[WorkerState, int]:
        rows = self._session.fetch_all("state_counts", {"swarm_id": swarm_id})
        return {WorkerState(state): count for state, count in rows}

    def last_event(self, swarm_id: str) -> Event | None:
        row = self._session.fetch_one("last_event", {"swarm_id": swarm_id})
        return None if row is None else Event(*row)

    def events_after(self, swarm_id: str, event_id: int, limit: int) -> list[Event]:
        rows = self._session.fetch_all(
            "events_after", {"swarm_id": swarm_id, "event_id": event_id, "limit": limit}
        )
        return [Event(*row) for row in rows]

    def event_bounds(self, swarm_id: str) -> tuple[int, int]:
        row = self._session.fetch_one("event_bounds", {"swarm_id": swarm_id})
        return (0, 0) if row is None or row[0] is None else (row[0], row[1])

    def events_between(self, wanted: EventFilter, limit: int, *, newest_first: bool) -> list[Event]:
        query = "events_between_newest_first" if newest_first else "events_between"
        kinds = None if wanted.kinds is None else f",{',,'.join(wanted.kinds)},"
        rows = self._session.fetch_all(query, {**wanted._asdict(), "kinds": kinds, "limit": limit})
        return [Event(*row) for row in rows]

    def latest_time_ms(self) -> int | None:
        row = self._session.fetch_one("latest_time_ms", {})
        return None if row is None else row[0]

    # -- writing

    def take_swarm(self, swarm_id: str) -> Swarm | None:
        return _swarm(self._session.fetch_one("take_swarm", {"swarm_id": swarm_id}))

    def take_assignment(self, swarm_id: str, task_id: str) -> Assignment | None:
        row = self._session.fetch_one("take_assignment", {"swarm_id": swarm_id, "task_id": task_id})
        if row is None:
            raise UnknownSwarm(swarm_id)
        return None if row[1] is None else to_assignment(row)

    def take_reported(
        self, swarm_id: str, task_id: str, report_key: bytes
    ) -> tuple[Assignment | None, Event | None]:
        row = self._session.fetch_one(
            "take_reported",
            {"swarm_id": swarm_id, "task_id": task_id, "report_key": report_key},
        )
        if row is None:
            raise UnknownSwarm(swarm_id)
        if row[1] is None:
            return None, None
        event = None if row[ASSIGNMENT_COLUMNS] is None else Event._make(row[ASSIGNMENT_COLUMNS:])
        return to_assignment(row), event

    def take_task(self, swarm_id: str, task_id: str) -> TakenTask | None:
        row = self._session.fetch_one("take_task", {"swarm_id": swarm_id, "task_id": task_id})
        if row is None:
            return None
        task = (
            None if row[ASSIGNMENT_COLUMNS] is None else Task(swarm_id, *row[ASSIGNMENT_COLUMNS:-5])
        )
        assignment = None if row[1] is None else to_assignment(row)
        return TakenTask(task, assignment, taken_worker(swarm_id, row[-5:]))

    def take_worker(self, swarm_id: str, name: str) -> TakenWorker | None:
        row = self._session.fetch_one("take_worker", {"swarm_id": swarm_id, "name": name})
        if row is None:
            return None
        assignment = None if row[1] is None else to_assignment(row)
        worker = taken_worker(swarm_id, row[ASSIGNMENT_COLUMNS:-1])
        return TakenWorker(worker, assignment, may_have_offers=bool(row[-1]))

    def next_offer(self, swarm_id: str, skip: int = 0) -> Assignment | None:
        row = self._session.fetch_one("next_offer", {"swarm_id": swarm_id, "skip": skip})
        return None if row is None else to_assignment(row)

    def offered_workers(self, limit: int) -> list[tuple[str, str]]:
        rows = self._session.fetch_all("offered_workers", {"limit": limit})
        return [(swarm_id, worker) for swarm_id, worker in rows]

    def _has_offers(self, swarm_id: str) -> bool:
        return self._session.fetch_one("has_offers", {"swarm_id": swarm_id}) is not None

    def add_swarm(self, swarm: Swarm) -> bool:
        return self._change("add_swarm", swarm._asdict()) == 1

    def set_swarm_completed(self, swarm_id: str, completed_at_ms: int | None) -> None:
        self._write(
            "set_swarm_completed", {"swarm_id": swarm_id, "completed_at_ms": completed_at_ms}
        )

    def put_assignment(self, assignment: Assignment) -> None:
        self._write("put_assignment", _assignment_parameters(assignment))

    def save_assignment(self, assignment: Assignment) -> bool:
        return self._write_one("save_assignment", _assignment_parameters(assignment))

    def save_progress(self, assignment: Assignment) -> None:
        self._write(
            "save_progress",
            {
                "swarm_id": assignment.swarm_id,
                "task_id": assignment.task_id,
                "epoch": assignment.epoch,
                "state": assignment.state.value,
                "steps_total": assignment.steps_total,
                "steps_completed": assignment.steps_completed,
                "retries_open": assignment.retries_open,
                "updated_at_ms": assignment.updated_at_ms,
            },
        )

    def save_lease(self, assignment: Assignment) -> bool:
        return self._write_one("save_lease", _assignment_parameters(assignment))

    def event_of_report(self, swarm_id: str, task_id: str, report_key: bytes) -> Event | None:
        row = self._session.fetch_one(
            "event_of_report",
            {"swarm_id": swarm_id, "task_id": task_id, "report_key": report_key},
        )
        return None if row is None else Event(*row)

    def event_with_data(
        self, swarm_id: str, task_id: str, data: Mapping[str, object]
    ) -> Event | None:
        row = self._session.fetch_one(
            "event_with_data",
            {
                "swarm_id": swarm_id,
                "task_id": task_id,
                "data": event_text(data),
                "no_key": b"",
                "limit": EVENTS_SEARCHED_MAX,
            },
        )
        return None if row is None else Event(*row)

    def retry(self, swarm_id: str, task_id: str, step_id: str) -> Retry | None:
        row = self._session.fetch_one(
            "retry", {"swarm_id": swarm_id, "task_id": task_id, "step_id": step_id}
        )
        return None if row is None else Retry._make(row)

    def put_retry(self, retry: Retry) -> None:
        self._write("put_retry", retry._asdict())

    def close_retries(self, swarm_id: str, task_id: str, step_id: str | None = None) -> int:
        keys: dict[str, object] = {"swarm_id": swarm_id, "task_id": task_id}
        if step_id is None:
            return self._change("close_retries", keys)
        return self._change("close_retry", keys | {"step_id": step_id})

    def forget_retries(self, swarm_id: str, task_id: str) -> None:
        self._write("forget_retries", {"swarm_id": swarm_id, "task_id": task_id})

    def due_retries(self, now_ms: int, limit: int) -> list[Retry]:
        rows = self._session.fetch_all("due_retries", {"now_ms": now_ms, "limit": limit})
        return [Retry._make(row) for row in rows]

    def hold_term(self, term: int) -> bool:
        return self._session.fetch_one("hold_term", {"term": term}) is not None

    def next_retry_at_ms(self) -> int | None:
        row = self._session.fetch_one("next_retry_at_ms", {})
        return None if row is None else row[0]

    # -- cleaning

    def delete_events(self, swarm_id: str, limit: int) -> int:
        return self._change("delete_events", {"swarm_id": swarm_id, "limit": limit})

    def delete_swarm(self, swarm_id: str) -> None:
        self._write("delete_all_events", {"swarm_id": swarm_id})
        self._write("release_repos_of_swarm", {"swarm_id": swarm_id})
        if self._change("delete_swarm_tokens", {"swarm_id": swarm_id}):
            self._session.announce_settings()
        self._write("delete_swarm", {"swarm_id": swarm_id})
        self._event_ids.pop(swarm_id, None)


def _swarm(row: Row | None) -> Swarm | None:
    if row is None:
        return None
    return Swarm._make((*row[:3], bool(row[3]), bool(row[4]), *row[5:]))


def _assignment_parameters(assignment: Assignment) -> Parameters:
    parameters: dict[str, object] = assignment._asdict()
    parameters["state"] = assignment.state.value
    return parameters
