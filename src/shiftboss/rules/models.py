"""Which model does what."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, NamedTuple

from shiftboss.protocol.policy import Models, Trait

Role = Literal["orchestrator", "worker"]


class ModelChoice(NamedTuple):
    model: str
    reason: str


def choose_model(role: Role, traits: Collection[Trait], policy: Models) -> ModelChoice:
    """A worker gets the stronger model when its task has one of the policy's traits."""
    if role == "orchestrator":
        return ModelChoice(policy.orchestrator, "the model of orchestrators")
    reasons = [trait for trait in policy.override_when if trait in traits]
    if reasons:
        return ModelChoice(policy.override, f"the task is {', '.join(reasons)}")
    return ModelChoice(policy.workers, "the model of workers")
