"""The page has words for everything that the server names: kinds of events, items and checks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

import shiftboss.server.web
from shiftboss.coordinator.board.change_feed import HEARTBEAT
from shiftboss.protocol.board.cards import Column
from shiftboss.protocol.board.inbox import InboxKind
from shiftboss.protocol.claims.verdicts import CheckName
from shiftboss.protocol.events import EventKind
from shiftboss.rules.tasks.worker_protocol import CONTEXT_THRESHOLD
from tests.unit.project.test_reference import rows

pytestmark = pytest.mark.requirement("OWN-04")

MODULES = Path(shiftboss.server.web.__file__).parent / "static" / "js"
EVENTS = {kind.value for kind in EventKind}


def block(module: str, name: str) -> str:
    """What a constant of a module is set to, without its brackets."""
    text = (MODULES / module).read_text(encoding="utf-8")
    found = re.search(rf"^const {name} = (?:new Set\()?[{{[]\n(.*?)^[}}\]]", text, re.S | re.M)
    found = found or re.search(rf"^export const {name} = [{{[]\n(.*?)^[}}\]]", text, re.S | re.M)
    assert found, f"{module} has no {name}"
    return found[1]


def keys(module: str, name: str) -> set[str]:
    return set(re.findall(r"^  (\w+):", block(module, name), re.M))


def words(module: str, name: str) -> set[str]:
    return set(re.findall(r'"(\w+)"', block(module, name)))


def test_every_event_has_a_sentence() -> None:
    assert keys("events/sentences.js", "SENTENCES") == EVENTS


def test_groups_and_tones_of_events_name_events() -> None:
    assert words("events/sentences.js", "TONES") <= EVENTS
    assert words("store.js", "QUIET_KINDS") <= EVENTS | {HEARTBEAT}
    assert words("views/repos.js", "SHOWN_KINDS") <= EVENTS
    groups = re.findall(r", \[(.*?)\]\]", block("events/filters.js", "GROUPS"))
    named = {kind for group in groups for kind in re.findall(r'"(\w+)"', group)}
    assert named
    assert named <= EVENTS


def test_every_end_of_an_attempt_has_a_word() -> None:
    [row] = [row for row in rows("### Events") if row[0] == "`attempt_ended`"]
    reasons = set(re.findall(r"`(\w+)`", row[1].partition("`reason`")[2]))
    assert keys("events/sentences.js", "ENDED") == reasons
    assert keys("task/attempts.js", "LOST") == reasons
    assert keys("task/attempts.js", "ENDINGS") <= EVENTS


def test_every_kind_of_the_inbox_has_a_word() -> None:
    assert keys("inbox/kinds.js", "KINDS") == set(get_args(InboxKind))
    assert keys("actions.js", "OF_KIND") <= set(get_args(InboxKind))


def test_every_check_has_a_meaning() -> None:
    assert keys("task/check.js", "MEANINGS") == set(get_args(CheckName))


def test_a_context_stands_out_from_where_a_checkpoint_is_asked_for() -> None:
    text = (MODULES / "format.js").read_text(encoding="utf-8")
    assert f"const CONTEXT_HIGH = {CONTEXT_THRESHOLD};" in text


def test_every_column_has_a_title() -> None:
    columns = re.findall(r'name: "(\w+)"', block("columns.js", "COLUMNS"))
    assert tuple(columns) == get_args(Column)
