"""The workers: the task of each, how full its context is, its cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from rich.segment import Segment

from shiftboss.cli.common.times import span
from shiftboss.cli.watch.model.card_lines import context_segment
from shiftboss.cli.watch.model.cells import count, fitted_name, money, segment, style_of

Members = Mapping[str, Any]
_NAME_CELLS: Final = 18
_STATUS_CELLS: Final = 11
_TASK_CELLS: Final = 18
_STYLES: Final = {"executing": "cyan", "pending": "yellow", "failed": "bold red"}


class Workers:
    """Those at work first, then by name."""

    def __init__(self) -> None:
        self._workers: list[Members] = []
        self._rows: dict[str, int] = {}

    def replace(self, workers: Iterable[Members]) -> None:
        def rank(worker: Members) -> tuple[bool, str]:
            return not worker.get("task"), str(worker.get("name"))

        self._workers = sorted(workers, key=rank)
        self._rows = {str(each.get("name")): row for row, each in enumerate(self._workers)}

    def __len__(self) -> int:
        return len(self._workers)

    def __getitem__(self, row: int) -> Members:
        return self._workers[row]

    def row_of(self, name: str) -> int | None:
        return self._rows.get(name)

    def headings(self) -> list[int]:
        return []


def worker_segments(worker: Members, now_ms: int, width: int) -> list[Segment]:
    status = str(worker.get("status") or "")
    lease = worker.get("lease_expires_at")
    rest = max(width - _NAME_CELLS - _STATUS_CELLS - _TASK_CELLS - 23, 0)
    step = worker.get("step") or worker.get("substate") or worker.get("milestone") or ""
    gap = segment("", 1)
    return [
        gap,
        Segment(fitted_name(str(worker.get("name", "")), _NAME_CELLS), style_of("")),
        gap,
        segment(status, _STATUS_CELLS, _STYLES.get(status, "dim")),
        gap,
        segment(worker.get("task") or "", _TASK_CELLS),
        gap,
        segment(span((lease - now_ms) / 1000) if lease else "", 5, right=True),
        gap,
        context_segment(worker.get("context_usage")),
        gap,
        segment(money(worker.get("dollars")) or count(worker.get("tokens")), 6, right=True),
        segment("", 2),
        segment(step or _idle(worker), rest),
    ]


def _idle(worker: Members) -> str:
    seconds = worker.get("idle_seconds")
    return "" if worker.get("task") or seconds is None else f"idle for {span(seconds)}"


def workers_head(width: int) -> list[Segment]:
    names = (
        ("", 1),
        ("WORKER", _NAME_CELLS + 1),
        ("STATUS", _STATUS_CELLS + 1),
        ("TASK", _TASK_CELLS + 1),
        ("LEASE", 6),
        (" CTX", 5),
        ("  COST", 8),
        ("STEP", max(width - _NAME_CELLS - _STATUS_CELLS - _TASK_CELLS - 23, 0)),
    )
    return [segment(name, cells, "dim") for name, cells in names]
