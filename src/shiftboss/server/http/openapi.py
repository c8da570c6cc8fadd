"""The OpenAPI document: paths, parameters, access, and which response leads to which request."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from shiftboss import __version__
from shiftboss.protocol.ci import WebhookAnswer
from shiftboss.protocol.deployment.servers import ReadyAnswer
from shiftboss.protocol.deployment.sessions import (
    LoginAnswer,
    LoginRequest,
    LogoutAnswer,
    LogoutRequest,
    SessionView,
)
from shiftboss.protocol.fields import IDEMPOTENCY_KEY_CHARACTERS_MAX, SWARM_ID_PATTERN
from shiftboss.protocol.policy import REPO_NAME_PATTERN
from shiftboss.protocol.problems import PROBLEM_CONTENT_TYPE
from shiftboss.protocol.questions import MessageAnswer
from shiftboss.protocol.swarms import (
    CreateSwarmAnswer,
    CreateSwarmRequest,
    HealthAnswer,
    SwarmList,
    SwarmStatus,
)
from shiftboss.server.http.guard import OPERATOR_PREFIX, WEBHOOK_PREFIX
from shiftboss.server.http.openapi_schemas import component_schemas, reference
from shiftboss.server.operations.bus import BUS_OPERATIONS
from shiftboss.server.operations.handoffs import OPERATOR_OPERATIONS
from shiftboss.server.operations.swarms import REPORTS

Parameter = dict[str, Any]

_SWARM_SCHEMA: Final = {"type": "string", "pattern": SWARM_ID_PATTERN}
_SWARM_ID: Final = {"name": "swarm_id", "in": "path", "required": True, "schema": _SWARM_SCHEMA}
_KEY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A repeat with the same key gets the first response again and changes nothing.",
    "schema": {
        "type": "string",
        "pattern": rf"^[!-~](?:[ -~]{{0,{IDEMPOTENCY_KEY_CHARACTERS_MAX - 2}}}[!-~])?$",
    },
}
# Whether the token is needed depends on the server.
_ANYBODY: Final[list[dict[str, list[str]]]] = [{}, {"token": []}]
_OPERATOR: Final[list[dict[str, list[str]]]] = [{"operator": []}, {"operator": [], "token": []}]
_SECURITY_SCHEMES: Final = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "The server's token. One that only this machine can reach may have none.",
    },
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": "shiftboss_session",
        "description": "The session of the page. The name ends in the port of the server, such as "
        "shiftboss_session_7432, and begins with __Host- under TLS.",
    },
    "operator": {
        "type": "apiKey",
        "in": "header",
        "name": "Shiftboss-Operator",
        "description": "The operator's token.",
    },
    "github": {
        "type": "apiKey",
        "in": "header",
        "name": "X-Hub-Signature-256",
        "description": "`sha256=` and the HMAC of the body, with the secret of the repo.",
    },
    "forgejo": {
        "type": "apiKey",
        "in": "header",
        "name": "X-Forgejo-Signature",
        "description": "The HMAC (SHA-256) of the body, with the secret of the repo.",
    },
}
# From the response of an operation to requests about what it names.
_LINKS: Final[dict[str, tuple[str, ...]]] = {
    "add_task": ("submit_task", "show_task", "why_task", "cancel_task"),
    "submit_task": ("retry_task", "worker_done", "task_failed"),
    "cancel_task": ("retry_task", "submit_task"),
}


@cache
def openapi_document(public_url: str | None = None) -> bytes:
    """Without a public URL, the server is where the document came from."""
    return to_json(
        {
            "openapi": "3.1.0",
            "info": {"title": "Shiftboss", "version": __version__},
            **({} if public_url is None else {"servers": [{"url": public_url}]}),
            "security": _ANYBODY,
            "paths": _paths(),
            "components": {"schemas": component_schemas(), "securitySchemes": _SECURITY_SCHEMES},
        }
    )


def _paths() -> dict[str, Any]:
    paths: dict[str, Any] = {
        "/swarm/create": {"post": _create_swarm()},
        "/swarms": {"get": _swarms()},
        "/swarm/{swarm_id}/status": {
            "get": _operation(
                "show_swarm", "Show the state of a swarm.", SwarmStatus, parameters=[_SWARM_ID]
            )
        },
        "/swarm/{swarm_id}/events": {"get": _events()},
        "/health": {
            "get": _operation("check_health", "Check the health of the server.", HealthAnswer)
            | {"security": []}
        },
        "/ready": {
            "get": _operation(
                "check_ready", "Check whether the server may get traffic; if not, why.", ReadyAnswer
            )
        },
        "/metrics": {"get": _metrics()},
        **_page_paths(),
    }
    for name, report in REPORTS.items():
        operation = _operation(
            f"report_{name}",
            report.summary,
            report.answer,
            request=report.request,
            parameters=[_SWARM_ID, _KEY],
        )
        paths[f"/swarm/{{swarm_id}}/{name}"] = {"post": operation}
    for name, bus_operation in BUS_OPERATIONS.items():
        operation = _operation(
            name,
            bus_operation.summary,
            bus_operation.answer,
            request=bus_operation.request,
            parameters=[_KEY],
        )
        paths[f"/bus/{name}"] = {"post": operation | _links_of(name, operation)}
    for name, bus_operation in OPERATOR_OPERATIONS.items():
        operation = _operation(
            f"operator_{name}",
            bus_operation.summary,
            bus_operation.answer,
            request=bus_operation.request,
            parameters=[_KEY],
        )
        paths[f"{OPERATOR_PREFIX}{name}"] = {"post": operation | {"security": _OPERATOR}}
    paths["/messages"] = {"post": _messages()}
    paths[f"{WEBHOOK_PREFIX}{{repo}}"] = {"post": _webhook()}
    return paths


def _page_paths() -> dict[str, Any]:
    """How the page logs in, and learns what has changed. Its files are not listed."""
    session = _operation(
        "show_session", "Show who is logged in, and what that allows.", SessionView
    )
    log_in = _operation(
        "log_in",
        "Exchange the code of a login link for a session, which is in a cookie.",
        LoginAnswer,
        request=LoginRequest,
    )
    log_out = _operation("log_out", "End the session.", LogoutAnswer, request=LogoutRequest)
    return {
        "/session": {"get": session | {"security": []}},
        "/login": {"post": log_in | {"security": []}},
        "/logout": {"post": log_out},
        "/changes": {
            "get": _stream(
                "stream_changes", "Stream which tasks of which swarms have changed, as they do."
            )
        },
    }


def _query(name: str, **schema: Any) -> Parameter:
    return {"name": name, "in": "query", "required": False, "schema": schema}


def _problems() -> dict[str, Any]:
    content = {PROBLEM_CONTENT_TYPE: {"schema": reference("Problem")}}
    return {"default": {"description": "An error.", "content": content}}


def _operation(
    name: str,
    summary: str,
    answer: type[BaseModel],
    status: int = 200,
    request: type[BaseModel] | None = None,
    parameters: list[Parameter] | None = None,
) -> dict[str, Any]:
    content = {"application/json": {"schema": reference(answer.__name__)}}
    operation: dict[str, Any] = {
        "operationId": name,
        "summary": summary,
        "responses": {str(status): {"description": summary, "content": content}} | _problems(),
    }
    if parameters:
        operation["parameters"] = parameters
    if request:
        operation["requestBody"] = _body(
            reference(request.__name__), required=not _accepts_nothing(request)
        )
    return operation


def _body(schema: dict[str, Any], *, required: bool = True) -> dict[str, Any]:
    return {"required": required, "content": {"application/json": {"schema": schema}}}


def _accepts_nothing(request: type[BaseModel]) -> bool:
    """Whether all members are optional: an empty body is then an empty object."""
    try:
        request.model_validate({})
    except ValidationError:
        return False
    return True


def _links_of(name: str, operation: dict[str, Any]) -> dict[str, Any]:
    """About the same task."""
    responses: dict[str, Any] = operation["responses"]
    links = {
        f"{name}_{target}": {
            "operationId": target,
            "requestBody": {"bead_id": "$request.body#/bead_id"},
        }
        for target in _LINKS.get(name, ())
    }
    return {"responses": responses | {"200": responses["200"] | {"links": links}}} if links else {}


def _create_swarm() -> dict[str, Any]:
    note = {"type": "string", "maxLength": 2000, "pattern": r"^[^\x00]*$"}
    operation = _operation(
        "create_swarm",
        "Create a swarm. The members can also be query parameters.",
        CreateSwarmAnswer,
        201,
        CreateSwarmRequest,
        parameters=[
            _query("swarm_id", **_SWARM_SCHEMA),
            _query("feature", **note),
            _query("manifest_path", **note),
            _query("auto_merge", type="boolean"),
            _query("notify_on_complete", type="boolean"),
            _query("workers_expected", type="integer", minimum=1, maximum=10_000),
        ],
    )
    same_swarm = {"swarm_id": "$response.body#/swarm_id"}
    targets = ("show_swarm", *(f"report_{name}" for name in REPORTS))
    operation["responses"]["201"]["links"] = {
        target: {"operationId": target, "parameters": same_swarm} for target in targets
    }
    return operation


def _swarms() -> dict[str, Any]:
    return _operation(
        "list_swarms",
        "List swarms, newest first.",
        SwarmList,
        parameters=[
            _query("before", type="string", pattern=r"^[0-9]{1,15}:[^\x00]+$"),
            _query("limit", type="integer", minimum=1, maximum=200),
        ],
    )


def _messages() -> dict[str, Any]:
    operation = _operation(
        "receive_message",
        "Send a message of the worker protocol.",
        MessageAnswer,
        parameters=[_query("swarm_id", **_SWARM_SCHEMA), _KEY],
    )
    return operation | {"requestBody": _body(reference("WorkerMessage"))}


def _webhook() -> dict[str, Any]:
    """The forge determines the body."""
    repo = {
        "name": "repo",
        "in": "path",
        "required": True,
        "schema": {"type": "string", "pattern": REPO_NAME_PATTERN},
    }
    operation = _operation(
        "receive_webhook",
        "Receive a CI webhook of a forge, signed with the secret of the repo.",
        WebhookAnswer,
        parameters=[repo],
    )
    return operation | {
        "requestBody": _body({"type": "object"}),
        "security": [{"github": []}, {"forgejo": []}],
    }


def _metrics() -> dict[str, Any]:
    summary = "Read the metrics of the server, in the text format of Prometheus or OpenMetrics."
    text = {"schema": {"type": "string"}}
    content = {"text/plain": text, "application/openmetrics-text": text}
    return {
        "operationId": "read_metrics",
        "summary": summary,
        "responses": {"200": {"description": summary, "content": content}} | _problems(),
    }


def _events() -> dict[str, Any]:
    event_id = {"type": "integer", "minimum": 0, "maximum": 2**53 - 1}
    last_id = {"name": "Last-Event-ID", "in": "header", "required": False, "schema": event_id}
    summary = "Stream the events of a swarm: the stored ones after since_event_id, then live ones."
    parameters = [
        _SWARM_ID,
        _query("since_event_id", **event_id),
        _query("follow", type="boolean"),
        last_id,
    ]
    return _stream("stream_events", summary) | {"parameters": parameters}


def _stream(name: str, summary: str) -> dict[str, Any]:
    content = {"text/event-stream": {"schema": {"type": "string"}}}
    return {
        "operationId": name,
        "summary": summary,
        "responses": {"200": {"description": summary, "content": content}} | _problems(),
    }
