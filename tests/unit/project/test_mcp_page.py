"""The MCP page agrees with the tools."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shiftboss.server.mcp.sdk import input_schema, output_schema
from shiftboss.server.mcp.tools import TOOLS
from shiftboss.server.operations.bus import BUS_OPERATIONS

PAGE = (Path(__file__).parents[3] / "docs" / "mcp.md").read_text(encoding="utf-8")
ROWS = {
    cells[0].strip("`"): (cells[1], cells[2])
    for line in PAGE.splitlines()
    if line.startswith("| `")
    for cells in [[cell.strip() for cell in line.strip("|").split("|")]]
}
# Described in prose there.
WORDS = {"add_task", "show_task", "answer_question", "swarm_status"}


def names(text: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", text))


def test_every_tool_is_listed() -> None:
    assert set(ROWS) == set(TOOLS)


@pytest.mark.parametrize("tool", TOOLS)
def test_the_arguments_are_listed_and_optional_ones_marked(tool: str) -> None:
    needed, _, rest = ROWS[tool][0].partition("[")
    schema = input_schema(tool)
    assert schema is not None
    required = set(schema.get("required", ()))
    further = {"swarm_id"} if tool in BUS_OPERATIONS else set()
    assert names(needed) == required
    assert names(rest) | further == set(schema["properties"]) - required


@pytest.mark.parametrize("tool", sorted(set(TOOLS) - WORDS))
def test_the_members_of_the_answer_are_listed(tool: str) -> None:
    answer = output_schema(TOOLS[tool])["anyOf"][0]
    outer = re.sub(r"\([^)]*\)", "", ROWS[tool][1])
    assert names(outer) == set(answer["properties"])
    assert set(re.findall(r"`(\w+)`\?", outer)) == names(outer) - set(answer["required"])
