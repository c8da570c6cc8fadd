"""Requests that the OpenAPI document describes, and some that it forbids, against a real server.

No answer is an internal error, and every answer is one that the document describes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from shiftboss.server.http.openapi import openapi_document
from tests.client import ANSWER_SECONDS
from tests.examples import FACTOR, examples
from tests.running import RunningServer

Described = APIOperation[Any, Any, Any, Any]
Request = schemathesis.Case[Any]

pytestmark = pytest.mark.requirement("SW-01", "SW-06")

OPERATOR: Final = "the-operators-token"
DOCUMENT: Final = json.loads(openapi_document())
# An open stream has no end.
STREAMS: Final = ["stream_events", "stream_changes"]
SCHEMA: Final = schemathesis.openapi.from_dict(DOCUMENT).exclude(operation_id=STREAMS)
CHECKS: Final = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
SETTINGS: Final = settings(
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
    # A short search is the same every time; a long one looks elsewhere each time.
    derandomize=FACTOR == 1,
)
# Members with rules that a schema cannot express: patterns of files, revisions that exist, rules
# over several members, and what depends on the state of the server.
RULES_IN_CODE: Final = (
    "files",
    "base",
    "policy",
    "subtask_title",
    "tasks_completed",
    "line",
    "report",
    "returns",
    "verdict",
    "swarm_id",
    "body",
    "public_key",
    "source",
    "after",
    "at",
)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    running = RunningServer(
        tmp_path_factory.mktemp("hostile") / "shiftboss.db", operator_token=OPERATOR, rate_limit=0
    )
    try:
        yield running.start().url
    finally:
        running.close()


def operations(prefix: str) -> list[Described]:
    """Those whose paths begin so; without a prefix, all but the operations of both tables."""
    found = [result.ok() for result in SCHEMA.get_all_operations() if isinstance(result, Ok)]
    tables = ("/bus/", "/operator/")
    return [
        operation
        for operation in found
        if (operation.path.startswith(prefix) if prefix else not operation.path.startswith(tables))
    ]


def as_sent(body: Any) -> Any:
    """As most clients write numbers: the schema allows 5.0 for a whole number, the server does
    not."""
    if isinstance(body, float) and body.is_integer():
        return int(body)
    if isinstance(body, list):
        return [as_sent(item) for item in body]
    return {name: as_sent(item) for name, item in body.items()} if isinstance(body, dict) else body


def send(case: Request, url: str) -> Any:
    """As the operator, and without waiting for work that nobody will give out."""
    case.body = as_sent(case.body)
    if case.operation.definition.raw["operationId"] == "create_swarm" and case.query:
        case.body = {}  # the members of both must not contradict each other
    if isinstance(case.body, dict):
        name = case.operation.definition.raw["operationId"]
        waits = {"poll_task": "timeout_ms"}.get(name, "wait_ms")
        if name in ("poll_task", "swarm_complete", "operator_take_claim"):
            case.body[waits] = 0
    return case.call(base_url=url, headers={"Shiftboss-Operator": OPERATOR}, timeout=ANSWER_SECONDS)


def attack(operation: Described, mode: GenerationMode, url: str) -> None:
    @settings(SETTINGS, max_examples=examples(2))
    @given(case=operation.as_strategy(generation_mode=mode))
    def requests(case: Request) -> None:
        response = send(case, url)
        case.validate_response(response, checks=CHECKS)
        if mode is GenerationMode.POSITIVE and response.status_code in (400, 415, 422):
            problem = response.json()
            assert problem["field"].partition(".")[0] in RULES_IN_CODE, (case.body, problem)

    requests()


@pytest.mark.parametrize("prefix", ["/bus/", "/operator/", ""])
def test_every_described_request_gets_a_described_answer(url: str, prefix: str) -> None:
    for operation in operations(prefix):
        attack(operation, GenerationMode.POSITIVE, url)


@pytest.mark.parametrize("prefix", ["/bus/", "/operator/", "/swarm"])
def test_every_forbidden_request_gets_a_described_answer(url: str, prefix: str) -> None:
    # Making such requests costs most of the time, so a search that is to be short leaves some out.
    for operation in operations(prefix)[:: 1 if FACTOR > 1 else 3]:
        attack(operation, GenerationMode.NEGATIVE, url)


def test_what_one_answer_leads_to_gets_a_described_answer(url: str) -> None:
    """A swarm is created, then its packets report; a task is added, then submitted and ended."""

    class Machine(SCHEMA.as_state_machine()):  # type: ignore[misc]
        def call(self, case: Request, **_arguments: Any) -> Any:
            return send(case, url)

        def validate_response(self, response: Any, case: Request, **_arguments: Any) -> None:
            case.validate_response(response, checks=CHECKS)

    Machine.run(settings=settings(SETTINGS, max_examples=examples(4), stateful_step_count=6))
