"""The workspace of one attempt at one task, and what its agent is given."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shiftboss.hooks.command import hook_argv


@dataclass(frozen=True, slots=True)
class AgentAssignment:
    """One attempt of one worker at one task, as the server handed it out, completed from the plan.
    `repo` is the folder of the repository; `base` is the commit of the contract."""

    swarm_id: str
    bead_id: str
    title: str
    worker: str
    epoch: int
    repo: Path
    base: str
    branch: str
    target: str
    contract_version: int
    handoff: dict[str, Any]
    contract_hash: str
    description: str = ""
    # The name of the repo in the server's policy. If it has one, CI has to pass too.
    policy_repo: str | None = None
    # Patterns of files that may change in addition to the contract's.
    generated: list[str] = field(default_factory=list)
    # Patterns of tests of the base whose expectations the task changes.
    expectations_change: list[str] = field(default_factory=list)
    model: str | None = None
    checkpoint: dict[str, Any] | None = None
    salvage: list[dict[str, Any]] = field(default_factory=list)
    # Counts failures; an interrupted attempt is continued. Epochs count every hand-out.
    attempt: int = 1

    @property
    def agent_claims(self) -> bool:
        """Whether the agent claims its work itself. If CI has to pass first, the orchestrator makes
        the claim: the agent would have to wait for CI, and every early claim counts as refused."""
        return self.policy_repo is None

    @property
    def name(self) -> str:
        """The name of the attempt's folders: TASK.EPOCH."""
        return f"{self.bead_id}.{self.epoch}"


@dataclass(frozen=True, slots=True)
class Workspace:
    """`tree` is the work tree. `scratch` is a folder outside of it, for the prompt, the contract,
    settings and logs of the attempt. `environment` is the whole environment of the agent."""

    assignment: AgentAssignment
    tree: Path
    scratch: Path
    server_url: str
    server_token: str | None = field(repr=False)
    environment: dict[str, str] = field(repr=False)

    @property
    def contract_file(self) -> Path:
        """The file that the hooks read; see `shiftboss.hooks.contract`."""
        return self.scratch / "contract.json"

    @property
    def task_id(self) -> str:
        return self.assignment.bead_id

    @property
    def worker(self) -> str:
        return self.assignment.worker

    def hook_argv(self, kind: str) -> list[str]:
        """The command line of a hook that is bound to the contract of the attempt."""
        return hook_argv(kind, self.contract_file)
