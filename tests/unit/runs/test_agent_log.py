"""The output of an agent page by page: a growing, rotated, hostile log, and readers that return."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shiftboss.attempts import agent_log, log_pages
from shiftboss.attempts.agent_log import AgentLogPage, LogCursor, parse_cursor, read_agent_log
from shiftboss.attempts.records import AttemptRecord
from shiftboss.orchestrator.guardian.output import OutputLog

pytestmark = pytest.mark.requirement("OWN-04")


@pytest.fixture
def record(tmp_path: Path) -> AttemptRecord:
    return AttemptRecord(tmp_path, "s", "t", 1, {"settings": {"kind": "command"}})


def read(
    record: AttemptRecord,
    cursor: LogCursor | None = None,
    lines_max: int = 100,
    *,
    is_live: bool = True,
    tail: bool = False,
) -> AgentLogPage:
    return read_agent_log(record, cursor, lines_max, is_live=is_live, tail=tail)


def texts(page: AgentLogPage) -> list[str]:
    return [line.line.text for line in page.lines]


def numbers(page: AgentLogPage) -> list[int]:
    return [line.number for line in page.lines]


def test_a_reader_returns_with_its_cursor_and_gets_what_is_new(record: AttemptRecord) -> None:
    record.output.write_text("one\ntwo\nthr")
    first = read(record)
    assert (texts(first), numbers(first), first.more) == (["one", "two"], [1, 2], False)
    cursor = parse_cursor(str(first.cursor))
    assert cursor == first.cursor
    assert texts(read(record, cursor)) == []
    record.output.write_text("one\ntwo\nthree\nfour")
    second = read(record, cursor)
    assert (texts(second), numbers(second)) == (["three"], [3])
    ended = read(record, second.cursor, is_live=False)
    assert (texts(ended), ended.more) == (["four"], False)
    assert texts(read(record, ended.cursor, is_live=False)) == []


def test_pages_are_short_and_lose_nothing(record: AttemptRecord) -> None:
    record.output.write_text("".join(f"line {number}\n" for number in range(7)))
    record.errors.write_text("oops\n")
    cursor, seen, pages = None, [], 0
    while pages < 10:
        page = read(record, cursor, 2)
        seen += [str(line.line) for line in page.lines]
        cursor, pages = page.cursor, pages + 1
        if not page.more:
            break
    assert seen == [*(f"line {number}" for number in range(7)), "stderr: oops"]
    assert pages == 4


def test_the_log_is_rotated_under_a_reader(record: AttemptRecord) -> None:
    log = OutputLog(str(record.output), bytes_max=40)
    log.write(b"first line\n")
    page = read(record)
    log.write(b"rest of it and ")  # the line goes on in the next file
    log.write(b"its end\n")
    assert record.output.with_name("output.log.1").exists()
    after = read(record, page.cursor)
    assert (texts(after), numbers(after)) == (["rest of it and its end"], [2])
    assert texts(read(record, after.cursor)) == []
    for number in range(6):
        log.write(b"later, number %d\n" % number)
    assert texts(read(record, after.cursor))[-1] == "later, number 5"


def test_the_tail_has_the_last_lines_with_their_numbers(
    record: AttemptRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_log, "_TAIL_BYTES", 20)
    record.output.write_text("".join(f"line {number}\n" for number in range(1, 10)))
    page = read(record, tail=True)
    assert (texts(page), numbers(page)) == (["line 8", "line 9"], [8, 9])
    record.output.write_text("x" * 30)
    assert texts(read(record, tail=True)) == []


def test_the_reader_of_a_later_page_knows_the_tools_in_use(record: AttemptRecord) -> None:
    claude = AttemptRecord(record.folder, "s", "t", 1, {"settings": {"kind": "claude"}})
    use = {"type": "tool_use", "id": "u1", "name": "Bash", "input": {"command": "rm x"}}
    denied = {
        "type": "tool_result",
        "tool_use_id": "u1",
        "is_error": True,
        "content": "Permission to use Bash has been denied.",
    }
    lines = [
        {"type": "assistant", "message": {"content": [use]}},
        {"type": "user", "message": {"content": [denied]}},
    ]
    record.output.write_text("".join(json.dumps(line) + "\n" for line in lines))
    first = read(claude, None, 1)
    assert [line.line.kind for line in first.lines] == ["tool"]
    second = read(claude, first.cursor, 1)
    assert [(line.line.kind, line.line.text[:5]) for line in second.lines] == [("denied", "Bash:")]


def test_nothing_in_a_line_controls_what_shows_it(record: AttemptRecord) -> None:
    record.output.write_bytes(b"\x1b[31mred\x1b[0m \x00\xff <script>\r\n" + "a\u202eb\n".encode())
    record.errors.write_bytes(b"\x1b]0;title\x07\n")
    shown = texts(read(record))
    assert shown == [
        r"\x1b[31mred\x1b[0m \x00" + "\N{REPLACEMENT CHARACTER} <script>",
        r"a\u202eb",
        r"\x1b]0;title\x07",
    ]
    assert all(text.isprintable() for text in shown)


def test_long_lines_and_large_pages_are_cut(
    record: AttemptRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_pages, "LINE_BYTES_MAX", 4 << 20)
    record.output.write_bytes(b"x" * (5 << 20) + b"\nlast\n")
    page = read(record)
    assert (len(page.lines), len(texts(page)[0]), page.more) == (1, 2003, True)
    rest = read(record, read(record, page.cursor).cursor)
    assert (texts(rest), rest.more) == (["last"], False)
    monkeypatch.setattr(agent_log, "PAGE_CHARACTERS_MAX", 100)
    record.errors.write_text("e" * 3000 + "\n" + "f\n")
    page = read(record, rest.cursor)
    assert (len(page.lines), page.more) == (1, True)


@pytest.mark.parametrize("name", ["output.log", "output.log.1"])
def test_a_link_in_the_place_of_a_log_is_not_followed(
    record: AttemptRecord, tmp_path: Path, name: str
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret\n")
    (record.folder / name).symlink_to(secret)
    assert texts(read(record)) == []


@pytest.mark.parametrize(
    "text", ["", "1", "1.2.3", "1.2.3-4.5", "1.2.3-4.5.6-", "x", "-1.2.3-1.1.1"]
)
def test_other_texts_are_no_cursors(text: str) -> None:
    assert parse_cursor(text) is None


def test_a_cursor_of_another_log_starts_over(record: AttemptRecord) -> None:
    record.output.write_text("one\n")
    cursor = parse_cursor("77.3.9-0.0.0")
    assert texts(read(record, cursor)) == ["one"]


def test_a_million_blank_lines_are_one(record: AttemptRecord) -> None:
    record.output.write_bytes(b"one\n" + b"\n" * 400_000 + b" \r\n" * 200_000 + b"  two\n\n")
    with log_pages.LogPages(record.output) as log:
        assert [line.number for line in log.lines_from(0, 0, to_end=True)] == [
            1,
            600_001,
            600_002,
            600_003,
        ]
    page = read(record)
    assert (texts(page), numbers(page), page.more) == (["one", "  two"], [1, 600_002], False)


def test_a_page_reads_some_lines_however_few_of_them_are_shown(
    record: AttemptRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_log, "LINES_READ_MAX", 10)
    claude = AttemptRecord(record.folder, "s", "t", 1, {"settings": {"kind": "claude"}})
    record.output.write_text('{"type": "silent"}\n' * 15 + "last\n")
    first = read(claude)
    assert (texts(first), first.cursor.output.lines, first.more) == ([], 10, True)
    second = read(claude, first.cursor)
    assert (texts(second), numbers(second), second.more) == (["last"], [16], False)


def test_what_came_before_a_page_is_read_for_some_lines_only(record: AttemptRecord) -> None:
    record.output.write_text("".join(f"{number}\n" for number in range(9)))
    with log_pages.LogPages(record.output) as log:
        assert [line.text for line in log.lines_before(16, 100, 3)] == ["5", "6", "7"]
        assert [line.text for line in log.lines_before(16, 5, 3)] == ["6", "7"]
        assert [line.text for line in log.lines_before(4, 100, 3)] == ["0", "1"]
