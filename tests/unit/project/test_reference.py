"""The reference page agrees with the code: nothing is missing, nothing is invented."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

import typer.main
from pydantic import BaseModel, BeforeValidator
from pydantic.fields import FieldInfo

from shiftboss import errors
from shiftboss.agents.registry import AGENTS
from shiftboss.cli.main import app
from shiftboss.protocol.claims.verdicts import CheckName
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.handoffs import VerificationPolicy
from shiftboss.protocol.plan import Plan
from shiftboss.protocol.policy import Policy
from shiftboss.server.http.openapi import openapi_document
from shiftboss.server.metrics.catalogue import CATALOGUE

REFERENCE = (Path(__file__).parents[3] / "docs" / "reference.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    """The text from a heading to the next one of its level or above."""
    level = len(title.split(" ", 1)[0])
    _, found, rest = REFERENCE.partition(f"\n{title}\n")
    assert found, f"there is no {title!r}"
    return re.split(rf"^#{{1,{level}}} ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def rows(title: str) -> list[list[str]]:
    """The cells of the first column's code and those after it."""
    lines = [line for line in section(title).splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_endpoint_is_listed() -> None:
    paths = json.loads(openapi_document())["paths"]
    served = {f"`{method.upper()} {path}`" for path, item in paths.items() for method in item}
    tables = ("## Endpoints", "## The bus", "## The operator")
    listed = {row[0] for title in tables for row in rows(title) if "/" in row[0]}
    assert listed == served | {
        "`GET /openapi.json`",
        "`GET /`",
        "`GET /login`",
        "`GET /static/{path}`",
    }


def test_every_error_is_listed_with_its_status() -> None:
    found = {
        (f"`{kind.code}`", str(kind.status))
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.ShiftbossError)
    }
    assert {(row[0], row[1]) for row in rows("## Errors")} == found


def test_every_metric_is_listed_with_its_kind_labels_and_meaning() -> None:
    defined = {
        (f"`{metric.shown_name}`", metric.kind, *metric.labels, metric.meaning)
        for metric in CATALOGUE.values()
    }
    listed = {
        (row[0], row[1], *re.findall(r"`(\w+)`", row[2]), row[3]) for row in rows("## Metrics")
    }
    assert listed == defined


def test_every_event_is_listed() -> None:
    assert {row[0] for row in rows("### Events")} == {f"`{kind.value}`" for kind in EventKind}


def test_every_check_of_a_verdict_and_every_member_of_a_policy_is_listed() -> None:
    assert {row[0] for row in rows("### Completion")} == {
        f"`{name}`" for name in get_args(CheckName)
    }
    members = {f"`{name}`" for name in VerificationPolicy.model_fields}
    assert members <= {row[0] for row in rows("## Handoffs")}


def test_every_kind_of_agent_is_listed() -> None:
    assert {f"`{kind}`" for kind in AGENTS} <= {row[0] for row in rows("## Agents")}


def test_every_command_is_listed() -> None:
    root = typer.main.get_command(app)
    found: set[str] = set()
    for name, command in root.commands.items():  # type: ignore[attr-defined]
        inner = getattr(command, "commands", None)
        found |= {f"`shiftboss {name} {part}`" for part in inner or ()}
        if not inner:
            found.add(f"`shiftboss {name}`")
    assert {row[0] for row in rows("## Commands")} == found


def test_every_key_of_a_policy_file_is_listed_with_its_default() -> None:
    assert {row[0]: row[1] for row in rows("### The policy file")} == dict(keys_of(Policy, ""))


def test_every_key_of_a_plan_is_listed_with_its_default() -> None:
    assert {row[0]: row[1] for row in rows("## The plan file")} == dict(keys_of(Plan, ""))


def keys_of(model: type[BaseModel], before: str) -> Iterator[tuple[str, str]]:
    """Every key that holds a value, in full, with its default as the page writes it."""
    for field, info in model.model_fields.items():
        name = info.alias or field
        inner = next(filter(_is_model, [info.annotation, *get_args(info.annotation)]), None)
        if inner is None or isinstance(info.default, str):  # a word, or an object instead of it
            yield f"`{before}{name}`", _default(info)
            continue
        yield from keys_of(inner, f"{before}{name}{_chosen(name, info)}.")


def _chosen(name: str, info: FieldInfo) -> str:
    """A mapping contains names chosen by the file; a list has numbered entries."""
    if _is_mapping(info):
        return ".JOB" if name == "jobs" else ".NAME"
    return "[]" if get_origin(info.annotation) is list else ""


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _is_mapping(info: FieldInfo) -> bool:
    return get_origin(info.annotation) is dict


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "required"
    value = info.default
    if value is None or value in ("", [], {}):
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if any(isinstance(one, BeforeValidator) for one in info.metadata):
        value = f"{value // 60}m" if value % 60 == 0 else f"{value}s"
    values = value if isinstance(value, list) else [value]
    return ", ".join(f"`{one}`" for one in values)
