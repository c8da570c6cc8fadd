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

import shiftboss
from shiftboss import errors
from shiftboss.agents.registry import AGENTS
from shiftboss.cli.main import app
from shiftboss.protocol.claims.verdicts import CheckName
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.handoffs import VerificationPolicy
from shiftboss.protocol.notifications.settings import NotifySettings
from shiftboss.protocol.plan import Plan
from shiftboss.protocol.policy import Policy
from shiftboss.server.http.openapi import openapi_document
from shiftboss.server.metrics.catalogue import CATALOGUE
from shiftboss.server.operations.bus import BUS_OPERATIONS
from shiftboss.server.operations.handoffs import OPERATOR_OPERATIONS

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


# Their members are in a table of their own.
SPAWNING = ("swarm_spawn_subtask", "spawn_subtask", "replace_handoff")
# One of two members has to be given, which no schema says.
ONE_OF_TWO = {"report_milestone": {"report", "line"}}


def test_every_member_of_a_request_is_listed_and_optional_ones_are_marked() -> None:
    operations = {
        **{f"`POST /bus/{name}`": each for name, each in BUS_OPERATIONS.items()},
        **{f"`POST /operator/{name}`": each for name, each in OPERATOR_OPERATIONS.items()},
    }
    wrong: dict[str, object] = {}
    for row in [*rows("## The bus"), *rows("## The operator")]:
        operation = operations.get(row[0])
        name = row[0].rpartition("/")[2].strip("`")
        if operation is None or name in SPAWNING or row[1] == "as on the bus":
            continue
        schema = operation.request.model_json_schema(by_alias=True)
        required = {*schema.get("required", ()), *ONE_OF_TWO.get(name, ())} - {"swarm_id"}
        members = re.sub(r"\([^)]*\)", "", row[1])
        optional = set(re.findall(r"\[`(\w+)`\]", members))
        listed = set(re.findall(r"`(\w+)`", members))
        if listed | {"swarm_id"} != {*schema["properties"], "swarm_id"}:
            wrong[row[0]] = listed ^ (set(schema["properties"]) - {"swarm_id"})
        elif listed - optional - {"swarm_id"} != required:
            wrong[row[0]] = (listed - optional) ^ required
    assert wrong == {}


def test_every_member_of_a_contract_is_listed() -> None:
    listed = {name for row in rows("## Handoffs") for name in re.findall(r"`(\w+)`", row[0])}
    for name in SPAWNING:
        operation = BUS_OPERATIONS.get(name) or OPERATOR_OPERATIONS[name]
        assert {*operation.request.model_fields} - {"swarm_id"} <= listed, name


def test_every_key_of_the_settings_of_notifications_is_listed() -> None:
    listed: set[str] = set()
    for row in rows("### The settings of notifications"):
        first, *others = re.findall(r"`([\w.]+)`", row[0])
        before = first.rpartition(".")[0]
        if "." in first:
            listed |= {first, *(each if "." in each else f"{before}.{each}" for each in others)}
    assert listed == {key.strip("`") for key, _ in keys_of(NotifySettings, "")}


# How the program knows its own processes, and an example.
INTERNAL = {"SHIFTBOSS_RUN", "SHIFTBOSS_COMMAND", "SHIFTBOSS_GIT", "SHIFTBOSS_REPO_ADL_EXAMPLES"}


def test_every_variable_of_the_environment_is_listed() -> None:
    source = Path(shiftboss.__file__).parent
    text = "\n".join(path.read_text("utf-8") for path in source.rglob("*.py"))
    named = set(re.findall(r"\bSHIFTBOSS_[A-Z_]*[A-Z]\b", text))
    of_options = set(re.findall(r'envvar="(\w+)"', text))
    listed = set(re.findall(r"\bSHIFTBOSS_[A-Z_]*[A-Z]\b", section("## Environment")))
    assert of_options <= listed <= named
    assert named - INTERNAL <= set(re.findall(r"\bSHIFTBOSS_\w+", REFERENCE))
