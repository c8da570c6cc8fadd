"""Short names for the operations of a running plan, on top of a bus."""

from __future__ import annotations

from typing import Any

from shiftboss.coordinator.duties.hold_expiry import HoldExpiry
from shiftboss.protocol.bus import HoldView, StatusRequest
from shiftboss.protocol.runs import (
    ApproveRequest,
    BudgetAnswer,
    Landable,
    LandedAnswer,
    ListLandableRequest,
    ParkAnswer,
    ParkTaskRequest,
    PauseAnswer,
    PauseSwarmRequest,
    RejectRequest,
    ReportLandedRequest,
    ReportUsageRequest,
    ResumeSwarmRequest,
    ReviewAnswer,
    SetBudgetRequest,
    ShowUsageRequest,
    UsageAnswer,
    UsageList,
)
from tests.conformance.bus.bus_fixtures import BusFixture


class RunFixture:
    """Short names for the operations of a running plan."""

    def __init__(self, bus: BusFixture) -> None:
        self.bus = bus
        self.run_service = bus.coordinator.runs
        coordinator = bus.coordinator
        self._lease_reaper = HoldExpiry(coordinator.store, bus.clock, coordinator.hub)

    def _said(self, **members: Any) -> dict[str, Any]:
        return {"swarm_id": self.bus.swarm_id, **members}

    async def uses(self, task: str, name: str, epoch: int, **members: Any) -> UsageAnswer:
        request = self._said(bead_id=task, name=name, epoch=epoch, **members)
        return await self.run_service.report_usage(ReportUsageRequest(**request))

    async def usage(self, **members: Any) -> UsageList:
        return await self.run_service.show_usage(ShowUsageRequest(**self._said(**members)))

    async def budget(self, task: str | None = None, **limits: Any) -> BudgetAnswer:
        return await self.run_service.set_budget(
            SetBudgetRequest(**self._said(bead_id=task, **limits))
        )

    async def raised(self, task: str | None = None, **limits: Any) -> BudgetAnswer:
        """Set by the operator."""
        return await self.run_service.raise_budget(
            SetBudgetRequest(**self._said(bead_id=task, **limits))
        )

    async def pause(self, seconds: float | None = None, **members: Any) -> PauseAnswer:
        until = None if seconds is None else self.bus.clock.now_ms + round(seconds * 1000)
        request = self._said(**({"reason": "quota", "until_ms": until} | members))
        return await self.run_service.pause_swarm(PauseSwarmRequest(**request))

    async def resume(self, task: str | None = None) -> PauseAnswer:
        return await self.run_service.resume_swarm(ResumeSwarmRequest(**self._said(bead_id=task)))

    async def park(
        self, task: str, name: str, epoch: int, seconds: float | None = None, **members: Any
    ) -> ParkAnswer:
        until = None if seconds is None else self.bus.clock.now_ms + round(seconds * 1000)
        request = self._said(bead_id=task, name=name, epoch=epoch, reason="quota", until_ms=until)
        return await self.run_service.park_task(ParkTaskRequest(**(request | members)))

    async def pass_seconds(self, seconds: float) -> None:
        """Time passes, and due pauses end."""
        self.bus.clock.now_ms += round(seconds * 1000)
        await self._lease_reaper.run_once()

    async def holds(self) -> list[HoldView]:
        request = StatusRequest(swarm_id=self.bus.swarm_id)
        return (await self.bus.bus_service.get_status(request)).holds

    async def landed(
        self, task: str, commit: str, target: str = "main", landed_commit: str | None = None
    ) -> LandedAnswer:
        request = self._said(
            bead_id=task, commit=commit, target=target, landed_commit=landed_commit or commit
        )
        return await self.run_service.report_landed(ReportLandedRequest(**request))

    async def landable(self, **members: Any) -> list[Landable]:
        request = ListLandableRequest(**self._said(**members))
        return (await self.run_service.list_landable(request)).tasks

    async def approve(self, task: str, **members: Any) -> ReviewAnswer:
        request = ApproveRequest(**self._said(bead_id=task, **members))
        return await self.run_service.approve(request)

    async def reject(self, task: str, reason: str, **members: Any) -> ReviewAnswer:
        request = RejectRequest(**self._said(bead_id=task, reason=reason, **members))
        return await self.run_service.reject(request)
