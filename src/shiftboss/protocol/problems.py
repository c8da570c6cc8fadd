"""Errors on the wire: `application/problem+json`."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from shiftboss.errors import InvalidRequest, ShiftbossError

PROBLEM_CONTENT_TYPE = "application/problem+json"
# A request can be wrong in as many places as it has members; the first few are enough.
ERRORS_LISTED_MAX = 20


def problem_of(error: ShiftbossError) -> dict[str, object]:
    return {
        "type": f"urn:shiftboss:{error.code}",
        "title": error.title,
        "status": error.status,
        "code": error.code,
        "detail": error.detail,
        "field": error.field,
        "hint": error.hint,
        **error.facts,
    }


def invalid_request(error: ValidationError) -> InvalidRequest:
    """One error that names the first wrong field and lists the rest."""
    found = [
        _one(item)
        for item in error.errors(include_url=False, include_context=True, include_input=False)
    ][:ERRORS_LISTED_MAX]
    first = found[0]
    return InvalidRequest(
        f"{first['field']}: {first['message']}",
        field=first["field"],
        hint="see GET /openapi.json for the members and their limits",
        facts={"errors": found},
    )


def _one(item: Any) -> dict[str, str]:
    field = ".".join(str(part) for part in item["loc"]) or "body"
    # A rule over several members carries the name of the one to blame as its type.
    if item["type"] == "tasks_completed":
        field = "tasks_completed"
    return {"field": field, "message": item["msg"]}
