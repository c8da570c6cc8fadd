"""The schemas of the OpenAPI document, made from the types that validate the requests.

Some rules of the server are checks in code, which the types do not put into their schemas. Those
that JSON Schema can say are added here, and not to the types: MCP clients get the schemas of the
types as well, and many of them support only the simplest forms.
"""

from __future__ import annotations

from typing import Any, Final, get_args

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import models_json_schema

from shiftboss.coordinator.bus.messages import TIMEOUT_SECONDS_MAX
from shiftboss.protocol.ci import WebhookAnswer
from shiftboss.protocol.claims.verdicts import Verdict
from shiftboss.protocol.contract.milestones import MilestoneReport
from shiftboss.protocol.deployment.servers import ReadyAnswer
from shiftboss.protocol.deployment.sessions import (
    LoginAnswer,
    LoginRequest,
    LogoutAnswer,
    LogoutRequest,
    SessionView,
)
from shiftboss.protocol.fields import NO_NUL
from shiftboss.protocol.messages import MESSAGE_FORMS
from shiftboss.protocol.questions import MessageAnswer
from shiftboss.protocol.swarms import (
    CreateSwarmAnswer,
    CreateSwarmRequest,
    HealthAnswer,
    SwarmList,
    SwarmStatus,
)
from shiftboss.server.operations.bus import BUS_OPERATIONS
from shiftboss.server.operations.handoffs import OPERATOR_OPERATIONS
from shiftboss.server.operations.swarms import REPORTS

_REF: Final = "#/components/schemas/{model}"

# What the server calls the id of a page: the time and the name of its last row.
_PAGE_MARK: Final = r"^(?:[0-9]{1,15}:[^\x00]+)?$"
_ABSOLUTE_PATH: Final = r"^(?:/(?!\.\.(?:/|$))[^/\x00]*)+$"
_MILESTONE_LINE: Final = r"^(?:WORKING|PUSHED_TO_CI|FIXING_CI|DONE|BLOCKED)[^\x00]*$"
_NULL: Final = {"type": "null"}
_MESSAGE_LIMITS: Final[dict[str, dict[str, int]]] = {
    "timeout_seconds": {"minimum": 1, "maximum": TIMEOUT_SECONDS_MAX},
    "context_usage": {"minimum": 0, "maximum": 1},
}

_PROBLEM: Final = {
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


def reference(name: str) -> dict[str, str]:
    return {"$ref": _REF.format(model=name)}


def component_schemas() -> dict[str, Any]:
    requests: list[type[BaseModel]] = [CreateSwarmRequest, Verdict, LoginRequest, LogoutRequest]
    answers: list[type[BaseModel]] = [
        CreateSwarmAnswer,
        SwarmList,
        SwarmStatus,
        HealthAnswer,
        ReadyAnswer,
        WebhookAnswer,
        MessageAnswer,
        SessionView,
        LoginAnswer,
        LogoutAnswer,
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
    schemas |= {"Problem": _PROBLEM, "WorkerMessage": _worker_message()}
    _say_what_types_cannot(schemas)
    return schemas


def _say_what_types_cannot(schemas: dict[str, Any]) -> None:
    def members(name: str) -> dict[str, Any]:
        properties: dict[str, Any] = schemas[name]["properties"]
        return properties

    members("MessageRequest")["message"] = reference("WorkerMessage")
    members("VerdictRequest")["verdict"] = {"anyOf": [reference("Verdict"), _NULL]}
    members("RegisterRequest")["worktree"]["pattern"] = _ABSOLUTE_PATH
    members("ReportMilestoneRequest")["line"]["anyOf"][0]["pattern"] = _MILESTONE_LINE
    for name in get_args(get_args(MilestoneReport)[0]):
        schemas[name.__name__].setdefault("required", []).append("milestone")
    for name in ("ListReceiptsRequest", "ListLandableRequest"):
        members(name)["after"]["pattern"] = _PAGE_MARK
    schemas["ReportMilestoneRequest"]["oneOf"] = [
        {"required": [given], "properties": {given: {"not": _NULL}, other: _NULL}}
        for given, other in (("line", "report"), ("report", "line"))
    ]
    schemas["VerdictRequest"]["oneOf"] = [
        {"required": [given], "properties": {given: {"not": _NULL}, other: _NULL}}
        for given, other in (("verdict", "failure"), ("failure", "verdict"))
    ]


def _worker_message() -> dict[str, Any]:
    """The members depend on the type of the message."""
    forms: list[dict[str, Any]] = []
    for kind, form in MESSAGE_FORMS.items():
        schema: dict[str, Any] = TypeAdapter(form).json_schema()
        schema.pop("$defs", None)
        schema["properties"]["type"] = {"const": kind.value}
        for name, member in schema["properties"].items():
            if member.get("type") == "string" and "format" not in member:
                member["pattern"] = NO_NUL
            member.update(_MESSAGE_LIMITS.get(name, {}))
        schema["additionalProperties"] = False
        schema["title"] = f"{kind.value} message"
        forms.append(schema)
    return {"oneOf": forms}
