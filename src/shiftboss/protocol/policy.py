"""The policy file `shiftboss.yaml`: repositories, their CI, and the limits of the contract.

The limits default to those of the completion contract, so a file that only lists the repositories
follows that contract. Its models and its line about the sandbox are for those who ask for them:
with `preset: completion-contract`, or with keys of their own.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)

from shiftboss.protocol.fields import NO_NUL, Request

REPO_NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
RepoName = Annotated[str, StringConstraints(pattern=REPO_NAME_PATTERN)]
JobName = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=NO_NUL)]
ShortText = Annotated[str, StringConstraints(min_length=1, max_length=2000, pattern=NO_NUL)]
# Traits of a task, from which the policy chooses a model.
Trait = Literal["high_complexity", "critical_path", "security_sensitive", "cross_repo"]
Milestone = Literal["WORKING", "PUSHED_TO_CI", "FIXING_CI", "DONE", "BLOCKED"]

# The job of the contract that publishes a commit.
SYNC_JOB: Final = "radicle-push"

_DURATION = re.compile(r"(\d+)\s*(s|m|h|d)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
DURATION_PATTERN = r"^(\d+\s*[smhd]\s*)+$"


def _parse_duration(value: object) -> object:
    """`20m`, `1h 30m`, or plain seconds."""
    if isinstance(value, str):
        text = value.strip()
        if not re.fullmatch(DURATION_PATTERN[1:-1], text):
            raise ValueError("must be a duration such as 30s, 20m or 1h 30m")
        return sum(int(count) * _SECONDS[unit] for count, unit in _DURATION.findall(text))
    return value


Seconds = Annotated[
    int,
    BeforeValidator(_parse_duration),
    Field(ge=0, le=31 * 86_400),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0},
                {"type": "string", "pattern": DURATION_PATTERN},
            ]
        }
    ),
]


class LocalJob(Request):
    """A job of the local runner. The commands run in order in a clean checkout, without a shell."""

    run: Annotated[list[ShortText], Field(min_length=1, max_length=50)]
    needs: list[JobName] = Field(default=[])
    timeout: Seconds = 900


CiEvent = Annotated[str, StringConstraints(pattern=r"^[a-z_]{1,64}$")]


class CiPolicy(Request):
    """All jobs of a commit must pass, except `optional_jobs`. `required_jobs` must also exist and
    not be skipped. `must_succeed` are the sync jobs, which have a remedy of their own when they are
    skipped; None means those that are found in the run. Names are compared in full, ignoring
    the case of A to Z. Only runs for `events` count."""

    provider: Literal["local", "forgejo", "github"] = "local"
    jobs: dict[JobName, LocalJob] = Field(default={})
    required_jobs: list[JobName] = Field(default=[])
    must_succeed: list[JobName] | None = None
    optional_jobs: list[JobName] = Field(default=[])
    events: Annotated[list[CiEvent], Field(min_length=1, max_length=20)] = Field(
        default=["push", "pull_request"]
    )
    # For forges: the address, the repository there, and the source of the token.
    url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s]+$")] | None = None
    repository: Annotated[str, StringConstraints(pattern=r"^[^/\s]+/[^/\s]+$")] | None = None
    token_variable: Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]*$")] | None = None
    token_file: ShortText | None = None
    webhook_secret_variable: (
        Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]*$")] | None
    ) = None
    webhook_secret_file: ShortText | None = None
    # How long a run may wait for a runner before it counts as stuck.
    stuck_after: Seconds = 600
    poll_every: Seconds = 15


class RepoPolicy(Request):
    path: ShortText | None = None
    url: ShortText | None = None
    branch: ShortText = "main"
    depends_on: list[RepoName] = Field(default=[])
    ci: CiPolicy = Field(default=CiPolicy())


class MilestoneTimeout(Request):
    timeout: Seconds
    warning_at: Seconds


class WorkingTimeout(MilestoneTimeout):
    timeout: Seconds = 1200
    warning_at: Seconds = 900


class PushedToCiTimeout(MilestoneTimeout):
    timeout: Seconds = 900
    warning_at: Seconds = 600


class FixingCiTimeout(MilestoneTimeout):
    """The times are for one attempt."""

    timeout: Seconds = 900
    warning_at: Seconds = 600
    max_attempts: Annotated[int, Field(ge=1, le=100)] = 5


class MilestoneTimeouts(Request):
    WORKING: WorkingTimeout = Field(default=WorkingTimeout())
    PUSHED_TO_CI: PushedToCiTimeout = Field(default=PushedToCiTimeout())
    FIXING_CI: FixingCiTimeout = Field(default=FixingCiTimeout())


class Timeouts(Request):
    worker: Seconds = 1800
    milestones: MilestoneTimeouts = Field(default=MilestoneTimeouts())
    # A worker with activity within this time is active, and its timeout is extended.
    active_within: Seconds = 300


class Backoff(Request):
    initial: Seconds = 5
    max: Seconds = 60
    multiplier: Annotated[int, Field(ge=1, le=10)] = 2
    max_retries: Annotated[int, Field(ge=0, le=100)] = 3


class RecoverableLimits(Request):
    escalate_after: Annotated[int, Field(ge=1, le=100)] = 3
    max_attempts: Annotated[int, Field(ge=1, le=100)] = 5


class PermissionLimits(Request):
    max_denials: Annotated[int, Field(ge=1, le=100)] = 2


class Failures(Request):
    """`classes` maps your own error types to one of the five classes."""

    transient: Backoff = Field(default=Backoff())
    recoverable: RecoverableLimits = Field(default=RecoverableLimits())
    permission_denied: PermissionLimits = Field(default=PermissionLimits())
    classes: dict[
        ShortText, Literal["transient", "recoverable", "blocking", "permission_denied", "fatal"]
    ] = Field(default={})


class Deadlock(Request):
    check_interval: Seconds = 300
    idle: Seconds = 600
    no_commits: Seconds = 900
    api_errors: Annotated[int, Field(ge=1, le=1000)] = 3


class Checkpoints(Request):
    interval: Seconds = 300


class TokenBudget(Request):
    spawn_context: Annotated[int, Field(ge=1)] = 100
    ci_stage_addon: Annotated[int, Field(ge=1)] = 150
    task_specific: Annotated[int, Field(ge=1)] = 200
    total_target: Annotated[int, Field(ge=1)] = 450
    context_handoff: Annotated[int, Field(ge=1)] = 50_000


class Models(Request):
    """The models by role. None leaves the choice to the plan, or else to the agent."""

    orchestrator: ShortText | None = None
    workers: ShortText | None = None
    override: ShortText | None = None
    override_when: list[Trait] = Field(
        default=["high_complexity", "critical_path", "security_sensitive", "cross_repo"]
    )


class Sandbox(Request):
    """The line about the sandbox in the worker's prompt. If empty, there is none."""

    worker_instruction: Annotated[str, StringConstraints(max_length=500, pattern=NO_NUL)] = ""


# What a preset sets beyond the defaults, by the key in the policy.
_PRESETS: Final[dict[str, dict[str, dict[str, str]]]] = {
    "completion-contract": {
        "models": {
            "orchestrator": "claude-opus-4",
            "workers": "claude-sonnet-4",
            "override": "claude-opus-4",
        },
        "sandbox": {
            "worker_instruction": "BASH: Use dangerouslyDisableSandbox:true on all Bash calls"
        },
    }
}


class Policy(Request):
    preset: Literal["completion-contract"] | None = None
    repos: dict[RepoName, RepoPolicy] = Field(default={})
    # neighbours: direct dependencies and dependents block, as in the contract's algorithm.
    # chain: indirect ones block as well, as in the contract's principle.
    locking: Literal["neighbours", "chain"] = "neighbours"
    timeouts: Timeouts = Field(default=Timeouts())
    failures: Failures = Field(default=Failures())
    deadlock: Deadlock = Field(default=Deadlock())
    checkpoints: Checkpoints = Field(default=Checkpoints())
    tokens: TokenBudget = Field(default=TokenBudget())
    models: Models = Field(default=Models())
    sandbox: Sandbox = Field(default=Sandbox())

    @model_validator(mode="before")
    @classmethod
    def _fill_in_preset(cls, data: object) -> object:
        """The values of the preset, for every key that the file does not set."""
        preset = data.get("preset") if isinstance(data, dict) else None
        if not isinstance(data, dict) or not isinstance(preset, str) or preset not in _PRESETS:
            return data
        filled_in = {
            key: {**values, **given}
            for key, values in _PRESETS[preset].items()
            if isinstance(given := _as_set(data.get(key, {})), dict)
        }
        return {**data, **filled_in}

    @model_validator(mode="after")
    def _name_sync_jobs(self) -> Self:
        """A file that names the preset has its sync job too. A file that only lists repos may be
        about repos that have none."""
        if self.preset is not None:
            for name, repo in self.repos.items():
                if repo.ci.must_succeed is None:
                    ci = repo.ci.model_copy(update={"must_succeed": [SYNC_JOB]})
                    self.repos[name] = repo.model_copy(update={"ci": ci})
        return self


def _as_set(value: object) -> object:
    return value.model_dump(exclude_unset=True) if isinstance(value, BaseModel) else value


def policy_schema() -> dict[str, Any]:
    return Policy.model_json_schema()
