"""The servers of a deployment, and whether one may get traffic, on the wire."""

from __future__ import annotations

from typing import Any, Literal

from shiftboss.protocol.bus import BusRequest
from shiftboss.protocol.deployment.keys import KeyView
from shiftboss.protocol.fields import Answer


class ShowDeploymentRequest(BusRequest):
    pass


class ReadinessProblemView(Answer):
    """Why a server is not ready, or works worse than it should: a stable name, a sentence, what to
    do, and a command that shows more."""

    name: str
    detail: str
    todo: str = ""
    command: str = ""


class DifferenceView(Answer):
    """In what the living servers of a database differ."""

    name: str
    severity: Literal["information", "warning", "problem"]
    detail: str
    todo: str


class ReadyAnswer(Answer):
    """A server that is not ready answers with an error, whose `reasons` say why. Without a token, a
    server that needs one says the status and nothing else."""

    status: Literal["ready"]
    version: str | None = None
    differences: list[DifferenceView] | None = None
    # What needs somebody, and does not keep the server from its work.
    warnings: list[ReadinessProblemView] | None = None


class ServerView(Answer):
    """`state` is living, silent (not seen for a while) or stopped. `facts` are what the server says
    about itself."""

    server_id: str
    host: str
    address: str
    version: str
    state: Literal["living", "silent", "stopped"]
    started_at: str
    seen_at: str
    leads: bool
    verifies: bool
    key_id: str
    facts: dict[str, Any]


class DiskView(Answer):
    """`what` is kept at the path: the database, the state folder of this server, or both."""

    what: str
    path: str
    free_bytes: int
    total_bytes: int


class WaitingClaimView(Answer):
    """A claim without a verdict. `taken_by` is the verifier that works on it."""

    swarm_id: str
    bead_id: str
    claim_id: int
    asked_at: str
    tries: int
    taken_by: str | None


class DeploymentView(Answer):
    """What an operator wants to know about the servers of a database. `server_id` is the one that
    answers; `disks` and `credentials` are its own. `verifiers` (those that are alive) and
    `webhooks` have the time at which each was last seen by any server."""

    server_id: str
    version: str
    store: str
    schema_version: int
    ready: bool
    reasons: list[ReadinessProblemView]
    warnings: list[ReadinessProblemView]
    servers: list[ServerView]
    differences: list[DifferenceView]
    keys: list[KeyView]
    leader: str | None
    clock_skew_ms: dict[str, float]
    policy: dict[str, Any]
    verifiers: dict[str, str]
    waiting_claims: list[WaitingClaimView]
    webhooks: dict[str, str]
    credentials: list[str]
    disks: list[DiskView]


class CheckForgesRequest(BusRequest):
    pass


class ForgeCheckView(Answer):
    """What the forge of a repo answered to this server. Without a `reason`, all is well; the others
    are those of `ci_unavailable`."""

    repo: str
    reason: str | None = None
    detail: str = ""
    hint: str | None = None


class ForgeChecks(Answer):
    """`repos` is how many the policy of the server has, with and without a forge."""

    repos: int
    checks: list[ForgeCheckView]
