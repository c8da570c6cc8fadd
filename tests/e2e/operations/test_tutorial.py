"""The tutorial about a swarm works as written: its worker, its commands and what they print."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doc_blocks import blocks
from tests.e2e.operations.reader import Reader
from tests.running import RunningServer

PAGE = "docs/tutorial.md"


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    server = RunningServer(tmp_path / ".shiftboss" / "shiftboss.db").start()
    try:
        yield Reader(tmp_path, server)
    finally:
        server.close()


@pytest.mark.requirement("SW-01", "HO-01")
def test_the_swarm_of_the_tutorial_completes_as_described(reader: Reader) -> None:
    steps = [block.text for block in blocks("bash", page=PAGE)]
    assert steps[:2] == ["make setup\n. .venv/bin/activate\n", "shiftboss serve\n"]
    create, stop_in_the_middle, without_server, finish, events, spawn, cheat, work = steps[2:]
    (worker,) = (block.text for block in blocks("python", page=PAGE))
    (reader.folder / "worker.py").write_text(worker.replace("/tmp/", f"{reader.folder}/"))

    assert reader.run(create).returncode == 0
    stopped, *shows = stop_in_the_middle.splitlines()
    assert "stopped in the middle" in reader.run(stopped).stderr
    shown = reader.run("\n".join(shows)).stdout
    assert '"tasks_completed": 2' in shown, shown
    assert "2 of 4 completed" in shown, shown
    reader.server.kill()
    assert "'queued': True" in reader.run(without_server).stdout
    reader.server.start()
    done = reader.run(finish)
    assert done.returncode == 0, done
    assert "4 of 4 completed" in done.stdout, done.stdout
    assert "swarm_complete" in reader.run(events).stdout

    assert reader.run(spawn).returncode == 0
    in_repo = f"cd {reader.folder}/sums\n"
    cheated = reader.run(in_repo + cheat)
    assert cheated.returncode == 1
    assert "README.md was added and is not in files_owned" in cheated.stdout + cheated.stderr
    worked = reader.run(in_repo + work)
    assert worked.returncode == 0, worked
    assert "receipt" in worked.stdout
