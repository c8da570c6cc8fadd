"""Pages of the site that are written from the code."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import typer.main

from shiftboss.cli.main import app
from shiftboss.protocol.fields import Answer, Request
from shiftboss.rules.contract import milestones
from shiftboss.rules.tasks import lifecycle
from shiftboss.server.operations.bus import BUS_OPERATIONS
from shiftboss.server.operations.handoffs import OPERATOR_OPERATIONS
from shiftboss.server.operations.operation import Operation

_HELP_OPTION: Final = "--help"
_OPERATIONS_INTRO: Final = (
    "Every operation with the members of its request and its response, from the types that the "
    "server uses. What they mean is in the [reference](../reference.md#the-bus). `GET "
    "/openapi.json` returns the same as an OpenAPI document."
)
_ASSIGNMENT_INTRO: Final = (
    "A worker moves its assignment along these edges. The coordinator can end an attempt in any "
    "state, see [the state of an assignment](../architecture.md#the-state-of-an-assignment)."
)
_MILESTONE_INTRO: Final = (
    "A milestone may be reported again, with another substate or another push, until the work is "
    "done."
)


# -- commands


def commands_page() -> str:
    root: Any = typer.main.get_command(app)
    lines = ["# Commands", "", "Every command with its arguments and options, from the program."]
    for name, command in root.commands.items():
        lines += _command_lines(f"shiftboss {name}", command)
    return "\n".join(lines) + "\n"


def _command_lines(name: str, command: Any) -> Iterator[str]:
    inner: Mapping[str, Any] = getattr(command, "commands", {})
    yield from ("", f"## {name}" if name.count(" ") == 1 else f"### {name}", "")
    yield from _help_lines(command.help or "")
    parameters = [each for each in command.params if _HELP_OPTION not in each.opts]
    if parameters:
        yield from ("", "| argument or option | meaning |", "|---|---|")
        yield from map(_parameter_row, parameters)
    for part, each in inner.items():
        yield from _command_lines(f"{name} {part}", each)


def _help_lines(text: str) -> Iterator[str]:
    r"""Paragraphs; one that begins with \b keeps its lines, as the program prints it."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.startswith("\b"):
            yield from ("", "```text", paragraph.removeprefix("\b").strip("\n"), "```")
        else:
            yield from ("", _text(" ".join(paragraph.split())))


def _parameter_row(parameter: Any) -> str:
    is_option = parameter.param_type_name == "option"
    names = parameter.opts + parameter.secondary_opts if is_option else [parameter.name.upper()]
    kind = "" if getattr(parameter, "is_flag", False) or not is_option else _value_name(parameter)
    shown = ", ".join(f"`{name}{kind}`" for name in names)
    help_text = _text(getattr(parameter, "help", None) or "").replace("|", "\\|")
    return f"| {shown} | {help_text}{_default_note(parameter)} |"


def _value_name(parameter: Any) -> str:
    return f" {parameter.metavar or parameter.type.name.upper()}"


def _default_note(parameter: Any) -> str:
    default = parameter.default
    if default in (None, False, (), []) or callable(default) or not isinstance(default, str | int):
        return ""
    return f" Default: `{default}`."


def _text(text: str) -> str:
    """What Markdown would take for HTML is text."""
    return text.replace("<", "&lt;")


# -- operations


def operations_page() -> str:
    lines = [
        "# Operations of the API",
        "",
        _OPERATIONS_INTRO,
    ]
    for prefix, operations in (("/bus/", BUS_OPERATIONS), ("/operator/", OPERATOR_OPERATIONS)):
        for name, operation in operations.items():
            lines += _operation_lines(f"POST {prefix}{name}", operation)
    return "\n".join(lines) + "\n"


def _operation_lines(title: str, operation: Operation) -> Iterable[str]:
    tool = "It is a tool of MCP, too." if operation.is_tool else "It is no tool of MCP."
    yield from ("", f"## {title}", "", _text(operation.summary))
    yield from ("", f"Needs the permission `{operation.permission.value}`. {tool}")
    yield from ("", "**Request**", "", *_members(operation.request, "required"))
    yield from ("", "**Response**", "", *_members(operation.answer, "always"))


def _members(model: type[Request] | type[Answer], always: str) -> Iterator[str]:
    """`always` is the word for a member that has no default."""
    if not model.model_fields:
        yield "No members."
        return
    schema = model.model_json_schema(by_alias=True)
    required = set(schema.get("required", ()))
    yield from ("| member | type | |", "|---|---|---|")
    for name, described in schema["properties"].items():
        need = always if name in required else _default_of(described)
        yield f"| `{name}` | {_type_of(described)} | {need} |"


def _default_of(described: Mapping[str, Any]) -> str:
    default = described.get("default")
    return "optional" if default in (None, "", [], {}) else f"default `{default}`"


def _type_of(described: Mapping[str, Any]) -> str:
    if "anyOf" in described:
        kinds = [_type_of(each) for each in described["anyOf"]]
        return " or ".join(dict.fromkeys(kinds))
    if "$ref" in described:
        return f"`{described['$ref'].rpartition('/')[2]}`"
    if "enum" in described or "const" in described:
        values = described.get("enum", [described.get("const")])
        return ", ".join(f"`{value}`" for value in values)
    kind = str(described.get("type", "any"))
    if kind == "array":
        return f"list of {_type_of(described.get('items', {}))}"
    return kind + _limits(described)


def _limits(described: Mapping[str, Any]) -> str:
    low = described.get("minimum", described.get("minLength"))
    high = described.get("maximum", described.get("maxLength"))
    unit = " characters" if described.get("type") == "string" else ""
    if low is not None and high is not None:
        return f", {low} to {high}{unit}"
    if low is not None:
        return f", at least {low}{unit}"
    return f", at most {high}{unit}" if high is not None else ""


# -- state machines


def state_machines_page() -> str:
    assignment = {
        state.name: [after.name for after in states]
        for state, states in lifecycle.TRANSITIONS.items()
    }
    milestone: dict[str, list[str]] = {
        name: list(after) for name, after in milestones.TRANSITIONS.items()
    }
    return "\n".join(
        [
            "# State machines",
            "",
            "Drawn from the tables that the server checks every report against.",
            "",
            "## Assignment",
            "",
            _ASSIGNMENT_INTRO,
            *_diagram("IDLE", assignment),
            "",
            "## Milestone",
            "",
            _MILESTONE_INTRO,
            *_diagram(milestones.INITIAL, milestone),
            "",
        ]
    )


def _diagram(first: str, edges: Mapping[str, Iterable[str]]) -> list[str]:
    arrows = [f"    {state} --> {after}" for state, states in edges.items() for after in states]
    table = [f"| {state} | {', '.join(states) or 'none'} |" for state, states in edges.items()]
    return [
        *("", "```mermaid", "stateDiagram-v2", f"    [*] --> {first}", *arrows, "```"),
        *("", "| from | to |", "|---|---|", *table),
    ]


GENERATED: Final[dict[str, Callable[[], str]]] = {
    "generated/commands.md": commands_page,
    "generated/operations.md": operations_page,
    "generated/state-machines.md": state_machines_page,
}
