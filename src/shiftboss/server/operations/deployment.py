"""The operator's operations on what the servers of a deployment share."""

from __future__ import annotations

from operator import attrgetter

from shiftboss.coordinator.deployment.forge_checks import ForgeCheckService
from shiftboss.coordinator.deployment.keys import KeyService
from shiftboss.coordinator.deployment.service import DeploymentService
from shiftboss.protocol.deployment import keys, servers
from shiftboss.server.operations.operation import Operation

_keys = attrgetter("keys")

DEPLOYMENT_OPERATOR_OPERATIONS: dict[str, Operation] = {
    "show_deployment": Operation(
        servers.ShowDeploymentRequest,
        servers.DeploymentView,
        DeploymentService.show_deployment,
        "Show the servers on the database, in what they differ, and what this one needs.",
        reads=True,
        service=attrgetter("deployment"),
    ),
    "check_forges": Operation(
        servers.CheckForgesRequest,
        servers.ForgeChecks,
        ForgeCheckService.check_forges,
        "Ask the forge of every repo, with the credentials of the server.",
        reads=True,
        waits=True,
        service=attrgetter("forge_checks"),
    ),
    "add_key": Operation(
        keys.AddKeyRequest,
        keys.KeyAnswer,
        KeyService.add_key,
        "Add the public key of a server: its receipts count as genuine.",
        service=_keys,
    ),
    "retire_key": Operation(
        keys.RetireKeyRequest,
        keys.KeyAnswer,
        KeyService.retire_key,
        "Retire a signing key. What it has signed stays genuine; its server gets a new one.",
        service=_keys,
    ),
}
