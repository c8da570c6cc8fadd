"""Short names for the use cases of a plan that runs, on top of a bus."""

from __future__ import annotations

from typing import Any

from shiftboss.coordinator.duties.hold_expiry import HoldExpiry
from shiftboss.protocol.bus import HoldView, StatusRequest
from shiftboss.protocol.runs import (
    BudgetAnswer,
    Landable,
    LandedAnswer,
    ListLandableRequest,
    ParkAnswer,
    ParkTaskRequest,
    PauseAnswer,
    PauseSwarmRequest,
    ReportLandedRequest,
    ReportUsageRequest,
    ResumeSwarmRequest,
    SetBudgetRequest,
    ShowUsageRequest,
    UsageAnswer,
    UsageList,
)
from tests.conformance.bus.bus_fixtures import BusRoom


class Running:
    def __init__(self, room: BusRoom) -> None:
        self.room = room
        self.desk = room.coordinator.runs
        coordinator = room.coordinator
        self._keeper = HoldExpiry(coordinator.store, room.clock, coordinator.hub)

    def _said(self, **members: Any) -> dict[str, Any]:
        return {"swarm_id": self.room.swarm_id, **members}

    async def uses(self, task: str, name: str, epoch: int, **members: Any) -> UsageAnswer:
        said = self._said(bead_id=task, name=name, epoch=epoch, **members)
        return await self.desk.report_usage(ReportUsageRequest(**said))

    async def usage(self, **members: Any) -> UsageList:
        return await self.desk.show_usage(ShowUsageRequest(**self._said(**members)))

    async def budget(self, task: str | None = None, **limits: Any) -> BudgetAnswer:
        return await self.desk.set_budget(SetBudgetRequest(**self._said(bead_id=task, **limits)))

    async def raised(self, task: str | None = None, **limits: Any) -> BudgetAnswer:
        """The operator's word."""
        return await self.desk.raise_budget(SetBudgetRequest(**self._said(bead_id=task, **limits)))

    async def pause(self, seconds: float | None = None, **members: Any) -> PauseAnswer:
        until = None if seconds is None else self.room.clock.now_ms + round(seconds * 1000)
        said = self._said(**({"reason": "quota", "until_ms": until} | members))
        return await self.desk.pause_swarm(PauseSwarmRequest(**said))

    async def resume(self, task: str | None = None) -> PauseAnswer:
        return await self.desk.resume_swarm(ResumeSwarmRequest(**self._said(bead_id=task)))

    async def park(
        self, task: str, name: str, epoch: int, seconds: float | None = None, **members: Any
    ) -> ParkAnswer:
        until = None if seconds is None else self.room.clock.now_ms + round(seconds * 1000)
        said = self._said(bead_id=task, name=name, epoch=epoch, reason="quota", until_ms=until)
        return await self.desk.park_task(ParkTaskRequest(**(said | members)))

    async def pass_seconds(self, seconds: float) -> None:
        """Time passes, and pauses end whose time has come."""
        self.room.clock.now_ms += round(seconds * 1000)
        await self._keeper.run_once()

    async def holds(self) -> list[HoldView]:
        request = StatusRequest(swarm_id=self.room.swarm_id)
        return (await self.room.desk.get_status(request)).holds

    async def landed(
        self, task: str, commit: str, target: str = "main", landed_commit: str | None = None
    ) -> LandedAnswer:
        said = self._said(
            bead_id=task, commit=commit, target=target, landed_commit=landed_commit or commit
        )
        return await self.desk.report_landed(ReportLandedRequest(**said))

    async def landable(self, **members: Any) -> list[Landable]:
        request = ListLandableRequest(**self._said(**members))
        return (await self.desk.list_landable(request)).tasks
