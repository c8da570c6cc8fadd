"""The operations on what the servers of a deployment share: tokens, keys, each other.

Those whose answers have a token are no MCP tools: what a tool answers is kept in transcripts.
"""

from __future__ import annotations

from operator import attrgetter

from shiftboss.coordinator.deployment.forge_checks import ForgeCheckService
from shiftboss.coordinator.deployment.keys import KeyService
from shiftboss.coordinator.deployment.service import DeploymentService
from shiftboss.coordinator.deployment.sessions import SessionService
from shiftboss.coordinator.deployment.token_service import TokenService
from shiftboss.protocol.deployment import keys, servers, sessions
from shiftboss.protocol.deployment import tokens as calls
from shiftboss.rules.access.roles import Permission
from shiftboss.server.operations.operation import Operation

_tokens = attrgetter("tokens")
_keys = attrgetter("keys")

DEPLOYMENT_OPERATIONS: dict[str, Operation] = {
    "create_task_token": Operation(
        calls.CreateTaskTokenRequest,
        calls.CreateTokenAnswer,
        TokenService.create_task_token,
        "Make a token for the agent of one attempt, which can report on that task alone.",
        Permission.STEER,
        service=_tokens,
        is_tool=False,
    ),
    "revoke_task_token": Operation(
        calls.RevokeTaskTokenRequest,
        calls.RevokeTaskTokenAnswer,
        TokenService.revoke_task_token,
        "Revoke the token of an agent whose attempt has ended.",
        Permission.STEER,
        service=_tokens,
        is_tool=False,
    ),
}

DEPLOYMENT_OPERATOR_OPERATIONS: dict[str, Operation] = {
    "create_login": Operation(
        sessions.CreateLoginRequest,
        sessions.LoginLink,
        SessionService.create_login,
        "Make a link that opens the page and logs in once, as who asks for it.",
        Permission.READ,
        service=attrgetter("sessions"),
        is_tool=False,
    ),
    "create_token": Operation(
        calls.CreateTokenRequest,
        calls.CreateTokenAnswer,
        TokenService.create_token,
        "Make a token with a name and a role. It is shown once.",
        Permission.OPERATE,
        service=_tokens,
    ),
    "list_tokens": Operation(
        calls.ListTokensRequest,
        calls.TokenList,
        TokenService.list_tokens,
        "List the tokens in the order of their ids, one page at a time. They are not shown.",
        Permission.OPERATE,
        reads=True,
        service=_tokens,
    ),
    "revoke_token": Operation(
        calls.RevokeTokenRequest,
        calls.RevokeTokenAnswer,
        TokenService.revoke_token,
        "Revoke the tokens of a name, or one by its id.",
        Permission.OPERATE,
        service=_tokens,
    ),
    "rotate_token": Operation(
        calls.RotateTokenRequest,
        calls.RotateTokenAnswer,
        TokenService.rotate_token,
        "Make a new token of a name; the older ones stay valid for a while.",
        Permission.OPERATE,
        service=_tokens,
    ),
    "show_deployment": Operation(
        servers.ShowDeploymentRequest,
        servers.DeploymentView,
        DeploymentService.show_deployment,
        "Show the servers on the database, in what they differ, and what this one needs.",
        Permission.OPERATE,
        reads=True,
        service=attrgetter("deployment"),
    ),
    "check_forges": Operation(
        servers.CheckForgesRequest,
        servers.ForgeChecks,
        ForgeCheckService.check_forges,
        "Ask the forge of every repo, with the credentials of the server.",
        Permission.OPERATE,
        reads=True,
        waits=True,
        service=attrgetter("forge_checks"),
    ),
    "add_key": Operation(
        keys.AddKeyRequest,
        keys.KeyAnswer,
        KeyService.add_key,
        "Add the public key of a server: its receipts count as genuine.",
        Permission.OPERATE,
        service=_keys,
    ),
    "retire_key": Operation(
        keys.RetireKeyRequest,
        keys.KeyAnswer,
        KeyService.retire_key,
        "Retire a signing key. What it has signed stays genuine; its server gets a new one.",
        Permission.OPERATE,
        service=_keys,
    ),
}
