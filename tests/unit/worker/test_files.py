"""Durable files, locks, and the delays between attempts."""

from __future__ import annotations

import os
import threading
from itertools import islice
from pathlib import Path

import pytest

from shiftboss.client.backoff import backoff_delays
from shiftboss.system.file_locks import LockHeldError, locked
from shiftboss.system.files import write_durably
from shiftboss.worker.outbox import Entry, Outbox


def entry(key: str) -> Entry:
    return Entry(swarm_id="s", operation="register", key=key, body={"packet_id": 1})


def append(outbox: Outbox, key: str) -> None:
    with outbox.writing():
        outbox.prepare(entry(key))
        outbox.send_prepared()


def keys(outbox: Outbox) -> list[str]:
    return [entry.key for file in outbox.files() if (entry := outbox.read(file))]


def test_a_file_is_replaced_atomically_without_leftovers(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    write_durably(path, b"a long first content")
    write_durably(path, b"short")
    assert path.read_bytes() == b"short"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_replacement_keeps_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    write_durably(path, b"former")
    (tmp_path / ".file.json.tmp").mkdir()
    with pytest.raises(IsADirectoryError):
        write_durably(path, b"next")
    assert path.read_bytes() == b"former"


def test_a_lock_has_one_holder_and_can_be_released(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "a.lock"
    with locked(path, 0.0), pytest.raises(LockHeldError), locked(path, 0.0):
        pass
    with locked(path, 0.0):
        pass


def test_taking_a_held_lock_waits(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    got = threading.Event()

    def wait_for_it() -> None:
        with locked(path, 10.0):
            got.set()

    with locked(path, 0.0):
        thread = threading.Thread(target=wait_for_it)
        thread.start()
        assert not got.is_set()
    thread.join(10.0)
    assert got.is_set()


def test_a_lock_file_removed_while_held_locks_nobody_out(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "a.lock"
    with locked(path, 0.0):
        path.unlink()
        path.parent.rmdir()
        with locked(path, 0.0):
            assert path.exists()


def test_more_than_ten_reports_keep_their_order(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox")
    for number in range(12):
        append(outbox, f"key-{number}")
    outbox.files()[0].unlink()
    append(outbox, "last")
    assert keys(outbox) == [*(f"key-{number}" for number in range(1, 12)), "last"]


def test_a_missing_outbox_is_empty(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox")
    assert outbox.files() == []
    outbox.remove_if_empty()
    assert not outbox.folder.exists()


def test_a_named_pipe_in_the_outbox_is_set_aside_unread(tmp_path: Path) -> None:
    """Reading a pipe would wait for a writer and block all reports."""
    outbox = Outbox(tmp_path / "outbox")
    outbox.folder.mkdir()
    pipe = outbox.folder / "000000000001.json"
    os.mkfifo(pipe)
    writer = os.open(pipe, os.O_RDWR)
    reader = threading.Thread(target=outbox.read, args=(pipe,), daemon=True)
    reader.start()
    reader.join(10.0)
    waits = reader.is_alive()
    os.close(writer)
    reader.join(10.0)
    assert not waits
    assert len(outbox.rejected()) == 1


def test_an_unlistable_outbox_is_empty_but_refuses_reports(tmp_path: Path) -> None:
    """A number must not be reused: the report with that number would be lost."""
    outbox = Outbox(tmp_path / "outbox")
    outbox.folder.write_text("a file")
    assert outbox.files() == []
    with pytest.raises(NotADirectoryError):
        outbox.send_prepared()


def test_an_outbox_is_removed_only_when_empty(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox")
    append(outbox, "one")
    outbox.remove_if_empty()
    assert keys(outbox) == ["one"]
    outbox.reject(outbox.files()[0], "for the test")
    outbox.remove_if_empty()
    assert (outbox.folder / "rejected").is_dir()
    (rejected,) = (outbox.folder / "rejected").iterdir()
    rejected.unlink()
    rejected.parent.rmdir()
    outbox.remove_if_empty()
    assert not outbox.folder.exists()


def test_delays_grow_from_a_fifth_of_a_second_to_five_seconds_and_stay_there() -> None:
    delays = list(islice(backoff_delays(), 12))
    limits = [0.2, 0.4, 0.8, 1.6, 3.2, *[5.0] * 7]
    assert all(limit / 2 <= delay <= limit for delay, limit in zip(delays, limits, strict=True))
