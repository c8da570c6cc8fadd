"""How the guardian of an agent handles pipes, files and folders."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shiftboss.orchestrator.guardian import output, resource_use
from shiftboss.orchestrator.guardian.output import OutputLog, OutputRelay
from shiftboss.orchestrator.guardian.resource_use import DiskMeter

pytestmark = pytest.mark.requirement("OWN-01")


class Listener:
    def __init__(self) -> None:
        self.descriptor, end = os.pipe()
        os.set_blocking(self.descriptor, False)
        self.passage = OutputRelay(end)

    def read(self) -> bytes:
        """Read the available output, and the output that follows when it has been read."""
        received = b""
        while True:
            self.passage.send()
            try:
                received += os.read(self.descriptor, 2**20)
            except BlockingIOError:
                return received

    def close(self) -> None:
        os.close(self.descriptor)
        os.close(self.passage.descriptor)


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    monkeypatch.setattr(output, "WAITING_BYTES_MAX", 10_000)
    listener = Listener()
    yield listener
    listener.close()


def test_a_listener_that_keeps_up_misses_nothing(listener: Listener) -> None:
    received = b""
    for number in range(20_000):
        listener.passage.put(b"%d\n" % number)
        if number % 1000 == 0:
            received += listener.read()
    received += listener.read()
    assert received.split() == [b"%d" % number for number in range(20_000)]


@pytest.mark.parametrize("chunk_bytes", [1, 7, 900, 4000, 20_000])
def test_a_slow_listener_gets_the_latest_whole_lines(listener: Listener, chunk_bytes: int) -> None:
    text = b"".join(b"line %07d\n" % number for number in range(20_000))
    for start in range(0, len(text), chunk_bytes):
        listener.passage.put(text[start : start + chunk_bytes])
    received = listener.read()
    assert len(received) <= 10_000
    assert text.endswith(received)
    assert received.startswith(b"line ")


def test_a_truncated_line_ends_before_the_next_one(listener: Listener) -> None:
    listener.passage.put(b"begun")
    assert listener.read() == b"begun"
    for number in range(5000):
        listener.passage.put(b"%05d\n" % number)
    begun, *lines = listener.read().splitlines()
    assert begun == b""
    assert lines == [b"%05d" % number for number in range(5000 - len(lines), 5000)]
    assert lines


def test_output_after_an_endless_line_is_delivered(listener: Listener) -> None:
    for _ in range(100):
        listener.passage.put(b"x" * 1000)
    assert listener.read() == b""
    listener.passage.put(b"x\nheard\n")
    assert listener.read() == b"heard\n"


def test_a_missing_listener_is_tolerated(listener: Listener) -> None:
    os.close(listener.descriptor)
    listener.passage.put(b"x\n")
    listener.passage.send()
    assert not listener.passage.is_waiting
    listener.descriptor = os.open(os.devnull, os.O_RDONLY)


def test_a_log_keeps_the_latest_output_within_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    log = OutputLog(str(path), 1000)
    for number in range(1000):
        log.write(b"%03d\n" % number)
    parts = [path.with_name("output.log.1").read_bytes(), path.read_bytes()]
    assert max(map(len, parts)) <= 500
    kept = b"".join(parts).split()
    assert kept == [b"%03d" % number for number in range(1000 - len(kept), 1000)]
    assert len(kept) >= 125
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_log_does_not_follow_a_link(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "output.log").symlink_to(tmp_path / "precious")
    OutputLog(str(tmp_path / "output.log"), 1000).write(b"x")
    assert (tmp_path / "precious").read_text() == "kept"


def test_logging_stops_when_the_logs_folder_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "scratch"
    folder.mkdir()
    log = OutputLog(str(folder / "output.log"), 1000)
    (folder / "output.log").unlink()
    folder.rmdir()
    for _ in range(100):
        log.write(b"x" * 100)
    assert not folder.exists()


def finding(meter: DiskMeter) -> str | None:
    """The result of one complete walk, however many steps it takes."""
    for _ in range(10_000):
        found = meter.step()
        if found is not None or meter.due_at == float("inf"):
            return found
    raise AssertionError("the walk does not end")


def test_the_disk_meter_counts_files_and_bytes_and_follows_no_link(tmp_path: Path) -> None:
    tree, elsewhere = tmp_path / "tree", tmp_path / "elsewhere"
    for number in range(10):
        (tree / f"{number}").mkdir(parents=True)
        (tree / f"{number}" / "file").write_bytes(b"x" * 100_000)
    elsewhere.mkdir()
    (elsewhere / "huge").write_bytes(b"x" * 5_000_000)
    (tree / "link").symlink_to(elsewhere)
    assert finding(DiskMeter(str(tree), 2 * 2**20, 21)) is None
    assert finding(DiskMeter(str(tree), 2 * 2**20, 20)) == "its folder holds more than 20 files"
    assert finding(DiskMeter(str(tree), 10**5, 100)) == "its folder holds more than 0 MB"
    assert finding(DiskMeter(str(tmp_path / "gone"), 0, 0)) is None


def test_the_disk_meter_works_in_steps_and_then_pauses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource_use, "STEP_SECONDS", 0.0)
    for number in range(3 * resource_use.ENTRIES_PER_LOOK):
        (tmp_path / f"{number}").touch()
    meter = DiskMeter(str(tmp_path), 2**30, 1000)
    steps = 0
    while meter.due_at < float("inf"):
        assert meter.step() is None
        steps += 1
        assert steps < 10
    assert steps == 4
    meter.stir()
    assert meter.due_at > time.monotonic() + 1
    meter.hurry()
    assert meter.due_at < time.monotonic() + resource_use.FIRST_SECONDS + 1
