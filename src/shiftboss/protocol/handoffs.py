"""The handoff of a task: the enforced contract, context for the worker, and the escalation."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    Field,
    SerializerFunctionWrapHandler,
    StringConstraints,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
    model_serializer,
)
from pydantic_core import PydanticCustomError

from shiftboss.protocol.bus import TaskId
from shiftboss.protocol.fields import NO_NUL, Request

PATHS_MAX = 2000
CRITERIA_MAX = 50
DEFAULT_CONTACT = "coordinator"
DEFAULT_SCOPE_CHANGE = (
    "request_scope(bead_id, paths, reason), then wait for the new contract version"
)

PathPattern = Annotated[str, StringConstraints(min_length=1, max_length=1000, pattern=NO_NUL)]
PathPatterns = Annotated[list[PathPattern], Field(max_length=PATHS_MAX)]
Criterion = Annotated[str, StringConstraints(min_length=1, max_length=2000, pattern=NO_NUL)]
Prose = Annotated[str, StringConstraints(max_length=20_000, pattern=NO_NUL)]


class Contract(Request):
    """The enforced part. The worker may write `files_owned` and must not write `files_readonly`.
    Without `files_owned` it only reads, and its claim proves that nothing was changed."""

    task_id: TaskId
    files_owned: PathPatterns
    files_readonly: PathPatterns
    dependencies_completed: list[TaskId]
    success_criteria: Annotated[list[Criterion], Field(min_length=1, max_length=CRITERIA_MAX)]


class Context(Request):
    """Background that helps to understand the task. It is not enforced.

    `description` is left out of the JSON if the task has none.
    """

    epic_summary: Prose
    your_role: Prose
    what_others_did: Prose
    what_comes_next: Prose
    description: Prose = ""

    @property
    def objective(self) -> str:
        """What the worker has to do: its role, and the description."""
        return "\n".join(text for text in (self.your_role, self.description) if text)

    @model_serializer(mode="wrap")
    def _without_empty_description(
        self, serialize: SerializerFunctionWrapHandler
    ) -> dict[str, Any]:
        members: dict[str, Any] = serialize(self)
        if not self.description:
            members.pop("description", None)
        return members


class Escalation(Request):
    blocked_contact: Annotated[
        str, StringConstraints(min_length=1, max_length=200, pattern=NO_NUL)
    ] = DEFAULT_CONTACT
    scope_change_protocol: Prose = DEFAULT_SCOPE_CHANGE


class WorkerHandoff(Request):
    contract: Contract
    context: Context
    escalation: Escalation


class MutantsRequired(Request):
    """The part of the mutants that the tests must notice."""

    require: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


def _validate_mutants(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    """Only the form that was meant is validated: a mistake is one problem, under its own key."""
    if isinstance(value, dict):
        return MutantsRequired.model_validate(value)
    try:
        return validate(value)
    except ValidationError as error:
        raise PydanticCustomError(
            "mutants", "Input should be 'off', 'report' or a mapping such as {require: 0.6}"
        ) from error


Mutants = Annotated[Literal["off", "report"] | MutantsRequired, WrapValidator(_validate_mutants)]


class HeldOutTests(Request):
    """Tests that only the verifier sees. `files` are their contents by path; they are written over
    the checkout. `criterion` runs them, such as `Tests pass: pytest tests/hidden`; without it, the
    criteria of the contract that run tests do.

    Nothing of it is in the repr, which may end up in a log or in a traceback.
    """

    files: Annotated[
        dict[PathPattern, Annotated[str, StringConstraints(max_length=200_000)]],
        Field(min_length=1, max_length=100, repr=False),
    ]
    criterion: Criterion | None = Field(default=None, repr=False)


class VerificationPolicy(Request):
    """How the contract is checked. Set by the coordinator, never by the worker."""

    # Paths that may change in addition to the owned ones: lock files, generated code.
    generated: PathPatterns = Field(default=[])
    # What to do with a criterion that no command can check.
    unverifiable: Literal["allow", "refuse"] = "allow"
    # Whether tests of the base may be removed or skipped in owned files.
    test_removal: Literal["allow", "refuse"] = "refuse"
    # Commands that prepare the clean checkout, such as `npm ci`. They run like criteria.
    setup: Annotated[list[Criterion], Field(max_length=20)] = Field(default=[])
    # Variables of the server's environment that the commands may see.
    environment: Annotated[
        list[Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")]],
        Field(max_length=50),
    ] = Field(default=[])
    command_seconds: Annotated[int, Field(ge=1, le=7200)] = 600
    command_megabytes: Annotated[int, Field(ge=64, le=1_048_576)] = 4096
    # Whether a request for a path without an owner is granted automatically.
    scope_requests: Literal["grant_unowned", "ask"] = "grant_unowned"
    # Which commits merged from the target branch may change files outside the contract: all of
    # them, except files that the work is checked with; or only commits with a receipt.
    target_commits: Literal["trust", "receipts"] = "trust"
    # Tests of the base whose expectations the task changes. All others must still pass in their
    # version of the base.
    expectations_change: PathPatterns = Field(default=[])
    # How an unknown test runner reports its tests, such as "{passed} checks passed, {failed} bad".
    test_summary: (
        Annotated[str, StringConstraints(max_length=200, pattern=r"\{passed\}")] | None
    ) = None
    # Whether to sabotage a few tests, which must then be reported as failed.
    canaries: Literal["on", "off"] = "on"
    # Whether to change the changed lines, which the tests should notice. `mutant_seconds` is the
    # time for it; None: as long as the criterion took, at most two minutes.
    mutants: Mutants = "report"
    mutant_seconds: Annotated[int, Field(ge=1, le=3600)] | None = None
    # What contains the commands, and which of them may use the network.
    sandbox: Literal["auto", "required", "off"] = "auto"
    network: Literal["none", "setup", "all"] = "setup"

    @field_validator("canaries", "mutants", "sandbox", mode="before")
    @classmethod
    def _switch(cls, value: Any) -> Any:
        """YAML reads `on` and `off` as booleans."""
        if isinstance(value, bool):
            return "on" if value else "off"
        return value


def canonical_json(value: Any) -> bytes:
    """The form that is hashed and signed: sorted keys, no spaces, UTF-8."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def handoff_hash(handoff: WorkerHandoff) -> str:
    return hashlib.sha256(canonical_json(handoff)).hexdigest()


def held_out_hash(tests: HeldOutTests) -> str:
    """Names a set of held-out tests where its content must not be shown."""
    return hashlib.sha256(canonical_json(tests)).hexdigest()
