"""Files of the state folder that others have replaced: commands neither wait for them nor fail."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pytest

from shiftboss.attempts.log_tail import LogTail
from shiftboss.attempts.records import attempts_of_run
from shiftboss.orchestrator.run.progress import Progress, TaskProgress
from shiftboss.orchestrator.run.run_files import (
    _ROW_TYPES,
    read_progress,
    read_result,
    read_run_facts,
)
from shiftboss.orchestrator.worktrees.worktree import _PREFIX, find_worktrees
from shiftboss.system.json_files import read_json_object
from shiftboss.system.private_files import write_private
from shiftboss.system.state_folder import ServerRecord, read_server_file, write_server_file

pytestmark = pytest.mark.requirement("OWN-12")

DEEP = '{"address":' + "[" * 2_000 + "]" * 2_000 + "}"


def test_a_pipe_a_link_and_a_folder_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("{}")
    assert read_json_object(tmp_path / "real") == {}
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "link", "folder", "missing", "a\0b"):
        assert read_json_object(tmp_path / name) is None


@pytest.mark.parametrize("text", ["[]", "1", "", "{", "[" * 500_000, '{"a":' * 500_000, "\xff"])
def test_what_is_not_an_object_is_not_used(tmp_path: Path, text: str) -> None:
    (tmp_path / "file").write_text(text, encoding="latin-1")
    assert read_json_object(tmp_path / "file", bytes_max=10_000_000) is None


def test_a_file_that_is_too_large_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text(json.dumps({"a": "b" * 100}))
    assert read_json_object(tmp_path / "file", bytes_max=50) is None


def test_a_bool_is_no_number(tmp_path: Path) -> None:
    (tmp_path / "file").write_text('{"pid": true}')
    assert read_json_object(tmp_path / "file", {"pid": int}) is None
    assert read_json_object(tmp_path / "file", {"pid": bool}) == {"pid": True}


def test_the_file_of_a_server_is_a_private_file_of_the_right_shape(tmp_path: Path) -> None:
    record = ServerRecord("http://127.0.0.1:1", 1, "now")
    write_server_file(tmp_path, record)
    assert read_server_file(tmp_path) == record
    file = tmp_path / "server.json"
    for text in (DEEP, '{"address": [], "pid": 1, "started_at": ""}', '{"pid": Infinity}'):
        write_private(file, text)
        assert read_server_file(tmp_path) is None
    file.unlink()
    os.mkfifo(file, 0o600)
    assert read_server_file(tmp_path) is None


@pytest.mark.parametrize("read", [read_run_facts, read_result])
@pytest.mark.parametrize(
    "members",
    [
        {"plan": 1, "address": [], "started_at": "x"},
        {"pid": "1", "exit_code": None, "outcome": []},
        {"plan": "p", "address": "a", "started_at": []},
    ],
)
def test_facts_of_the_wrong_type_count_as_missing(
    tmp_path: Path, read: Callable[[Path], object], members: dict[str, Any]
) -> None:
    for name in ("run.json", "outcome.json"):
        (tmp_path / name).write_text(json.dumps(members))
    assert read(tmp_path) is None


def test_rows_of_the_wrong_type_are_not_shown(tmp_path: Path) -> None:
    good = asdict(TaskProgress("a", "A"))
    rows = [good, good | {"tokens": "many"}, {"bead_id": "b"}, 7, good | {"more": 1}]
    (tmp_path / "progress.json").write_text(json.dumps({"rows": rows, "lines": ["x", 1]}))
    progress = Progress()
    read_progress(tmp_path, progress)
    assert list(progress.rows.values()) == [TaskProgress("a", "A")]
    assert list(progress.lines) == ["x"]


def test_the_types_of_a_row_are_known() -> None:
    assert list(_ROW_TYPES) == [field.name for field in fields(TaskProgress)]


@pytest.mark.parametrize("settings", [{"kind": "claude", "command": 7}, {}, [], {"kind": ["x"]}])
def test_the_record_of_an_attempt_is_only_used_as_far_as_it_is_valid(
    tmp_path: Path, settings: object
) -> None:
    folder = tmp_path / "runs" / "s" / "a.1"
    folder.mkdir(parents=True)
    facts = {"settings": settings, "repo": ["/"], "branch": 5, "tree": "/tree"}
    (folder / "attempt.json").write_text(json.dumps(facts))
    [attempt] = attempts_of_run(tmp_path, "s")
    assert {name for name in attempt.facts if name != "settings"} == {"tree"}
    assert (attempt.settings.kind, attempt.settings.command) == ("command", [])


def test_a_log_that_is_a_pipe_or_a_link_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret\n")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        with LogTail(tmp_path / name) as log:
            assert list(log.new_lines(to_end=True)) == []


@pytest.mark.parametrize("reason", ['{"path": [1]}', "{}", "7", "[" * 100_000])
def test_the_lock_of_a_work_tree_may_say_anything(tmp_path: Path, reason: str) -> None:
    admin = tmp_path / "worktrees" / "a.1"
    admin.mkdir(parents=True)
    (admin / "locked").write_text(f"{_PREFIX}{reason}")
    assert list(find_worktrees(tmp_path, tmp_path / "trees")) == []
