"""Errors as `application/problem+json`."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from shiftboss.errors import InvalidRequest, ShiftbossError

PROBLEM_CONTENT_TYPE = "application/problem+json"
# A request can have as many errors as members; the first few are enough.
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
    errors = [
        _error_view(item)
        for item in error.errors(include_url=False, include_context=True, include_input=False)
    ][:ERRORS_LISTED_MAX]
    first = errors[0]
    return InvalidRequest(
        f"{first['field']}: {first['message']}",
        field=first["field"],
        hint="GET /openapi.json describes the members and their limits",
        facts={"errors": errors},
    )


def _error_view(item: Any) -> dict[str, str]:
    field = ".".join(str(part) for part in item["loc"]) or "body"
    # A validator over several members uses the name of the wrong member as its type.
    if item["type"] == "tasks_completed":
        field = "tasks_completed"
    return {"field": field, "message": item["msg"]}
