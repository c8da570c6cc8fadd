"""The OpenAPI document, made from the types that validate the requests."""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from pydantic_core import to_json

from shiftboss import __version__
from shiftboss.protocol.bus import MessageAnswer
from shiftboss.protocol.ci import WebhookAnswer
from shiftboss.protocol.fields import SWARM_ID_PATTERN
from shiftboss.protocol.messages import MessageType
from shiftboss.protocol.policy import REPO_NAME_PATTERN
from shiftboss.protocol.problems import PROBLEM_CONTENT_TYPE
from shiftboss.protocol.swarms import (
    CreateSwarmAnswer,
    CreateSwarmRequest,
    HealthAnswer,
    SwarmList,
    SwarmStatus,
)
from shiftboss.server.http.guard import OPERATOR_PREFIX, WEBHOOK_PREFIX
from shiftboss.server.operations.bus import BUS_OPERATIONS
from shiftboss.server.operations.handoffs import OPERATOR_OPERATIONS
from shiftboss.server.operations.swarms import REPORTS

_REF = "#/components/schemas/{model}"
_SWARM_ID = {
    "name": "swarm_id",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": SWARM_ID_PATTERN},
}
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A repeat with the same key gets the first response again and changes nothing.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200},
}
_OPERATOR = {
    "name": "Shiftboss-Operator",
    "in": "header",
    "required": True,
    "description": "The operator's token.",
    "schema": {"type": "string"},
}
_PROBLEM_SCHEMA = {
    "type": "object",
    "required": ["type", "title", "status", "code", "detail", "field", "hint"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string", "description": "stable; see the reference"},
        "detail": {"type": "string"},
        "field": {"type": ["string", "null"], "description": "the member that is wrong"},
        "hint": {"type": ["string", "null"]},
    },
}


@cache
def openapi_document() -> bytes:
    paths: dict[str, Any] = {
        "/swarm/create": {
            "post": _operation(
                "Create a swarm. The members can also be query parameters.",
                CreateSwarmAnswer,
                201,
                CreateSwarmRequest,
                parameters=[
                    _query("swarm_id", "string"),
                    _query("feature", "string"),
                    _query("manifest_path", "string"),
                    _query("auto_merge", "boolean"),
                    _query("notify_on_complete", "boolean"),
                    _query("workers_expected", "integer"),
                ],
            )
        },
        "/swarms": {
            "get": _operation(
                "List swarms, newest first.",
                SwarmList,
                parameters=[_query("before", "string"), _query("limit", "integer")],
            )
        },
        "/swarm/{swarm_id}/status": {
            "get": _operation("Show the state of a swarm.", SwarmStatus, parameters=[_SWARM_ID])
        },
        "/swarm/{swarm_id}/events": {"get": _events()},
        "/health": {"get": _operation("Check the health of the server.", HealthAnswer)},
    }
    for name, report in REPORTS.items():
        paths[f"/swarm/{{swarm_id}}/{name}"] = {
            "post": _operation(
                report.summary,
                report.answer,
                request=report.request,
                parameters=[_SWARM_ID, _KEY],
            )
        }
    for prefix, table, parameters in (
        ("/bus/", BUS_OPERATIONS, [_KEY]),
        (OPERATOR_PREFIX, OPERATOR_OPERATIONS, [_KEY, _OPERATOR]),
    ):
        for name, operation in table.items():
            paths[f"{prefix}{name}"] = {
                "post": _operation(
                    operation.summary,
                    operation.answer,
                    request=operation.request,
                    parameters=parameters,
                )
            }
    paths["/messages"] = {"post": _messages()}
    paths[f"{WEBHOOK_PREFIX}{{repo}}"] = {"post": _webhook()}
    return to_json(
        {
            "openapi": "3.1.0",
            "info": {"title": "Shiftboss", "version": __version__},
            "paths": paths,
            "components": {"schemas": _schemas()},
        }
    )


def _schemas() -> dict[str, Any]:
    requests: list[type[BaseModel]] = [CreateSwarmRequest]
    answers: list[type[BaseModel]] = [
        CreateSwarmAnswer,
        SwarmList,
        SwarmStatus,
        HealthAnswer,
        WebhookAnswer,
    ]
    for table in (REPORTS, BUS_OPERATIONS, OPERATOR_OPERATIONS):
        requests += [operation.request for operation in table.values()]
        answers += [operation.answer for operation in table.values()]
    _, document = models_json_schema(
        [(model, "validation") for model in requests]
        + [(model, "serialization") for model in answers],
        ref_template=_REF,
    )
    schemas: dict[str, Any] = document["$defs"]
    return schemas | {"Problem": _PROBLEM_SCHEMA}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": _REF.format(model=name)}


def _query(name: str, kind: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "schema": {"type": kind}}


def _problems() -> dict[str, Any]:
    content = {PROBLEM_CONTENT_TYPE: {"schema": _ref("Problem")}}
    return {"default": {"description": "An error.", "content": content}}


def _operation(
    summary: str,
    answer: type[BaseModel],
    status: int = 200,
    request: type[BaseModel] | None = None,
    parameters: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    content = {"application/json": {"schema": _ref(answer.__name__)}}
    operation: dict[str, Any] = {
        "summary": summary,
        "responses": {str(status): {"description": summary, "content": content}} | _problems(),
    }
    if parameters:
        operation["parameters"] = parameters
    if request:
        body = {"application/json": {"schema": _ref(request.__name__)}}
        operation["requestBody"] = {"required": True, "content": body}
    return operation


def _messages() -> dict[str, Any]:
    """The members depend on the type of the message."""
    operation = _operation(
        "Send a message of the worker protocol.",
        MessageAnswer,
        parameters=[_query("swarm_id", "string")],
    )
    schema = {
        "type": "object",
        "required": ["type", "worker_id", "timestamp", "payload"],
        "properties": {"type": {"enum": [kind.value for kind in MessageType]}},
    }
    operation["requestBody"] = {
        "required": True,
        "content": {"application/json": {"schema": schema}},
    }
    return operation


def _webhook() -> dict[str, Any]:
    """The forge determines the body."""
    repo = {
        "name": "repo",
        "in": "path",
        "required": True,
        "schema": {"type": "string", "pattern": REPO_NAME_PATTERN},
    }
    operation = _operation(
        "Receive a CI webhook of a forge, signed with the secret of the repo.",
        WebhookAnswer,
        parameters=[repo],
    )
    content = {"application/json": {"schema": {"type": "object"}}}
    operation["requestBody"] = {"required": True, "content": content}
    return operation


def _events() -> dict[str, Any]:
    last_id = {
        "name": "Last-Event-ID",
        "in": "header",
        "required": False,
        "schema": {"type": "integer", "minimum": 0},
    }
    summary = "Stream the events of a swarm: the stored ones after since_event_id, then live ones."
    content = {"text/event-stream": {"schema": {"type": "string"}}}
    return {
        "summary": summary,
        "parameters": [
            _SWARM_ID,
            _query("since_event_id", "integer"),
            _query("follow", "boolean"),
            last_id,
        ],
        "responses": {"200": {"description": summary, "content": content}} | _problems(),
    }
