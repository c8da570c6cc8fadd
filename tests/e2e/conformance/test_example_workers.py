"""The workers in examples/workers, in four languages, pass the kit as real processes."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from shiftboss.conformance.worker.harness import WaitLimits
from shiftboss.conformance.worker.profiles import Profile, WorkerKit, checks_of
from shiftboss.conformance.worker_process import command_starter
from tests.acceptance.conformance.kit_server import KitServer
from tests.e2e.agents.npm import INSTALL_SECONDS, Program
from tests.fork_server import forked_command
from tests.programs import program
from tests.running import RunningServer
from tests.waiting import wait_until

pytestmark = [pytest.mark.requirement("OWN-10"), pytest.mark.timeout(INSTALL_SECONDS + 240)]

WORKERS: Final = Path(__file__).parents[3] / "examples" / "workers"
BUILD_SECONDS: Final = 240.0
TYPESCRIPT: Final = "typescript@5.9.3"
NODE_TYPES: Final = "@types/node@20.19.25"
# What a worker of a few lines leaves out.
OPTIONAL: Final = {"asks", "hands-over"}


def python(name: str) -> list[str]:
    program = "import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')"
    return forked_command(["-c", program, str(WORKERS / name)])


def shell(name: str) -> list[str]:
    program("curl")
    return ["sh", str(WORKERS / name)]


def typescript(name: str) -> list[str]:
    """Node 22 runs it as it is."""
    folder = Program(TYPESCRIPT).environment()["PATH"].split(os.pathsep)[0]
    return [str(Path(folder, "node")), "--disable-warning=ExperimentalWarning", str(WORKERS / name)]


def go(name: str, folder: Path) -> list[str]:
    worker = folder / "go-worker"
    build = [program("go"), "build", "-o", str(worker), str(WORKERS / name)]
    subprocess.run(
        build, check=True, timeout=BUILD_SECONDS, env={**os.environ, "GO111MODULE": "off"}
    )
    return [str(worker)]


# How it is started, its profile, and what it does not offer.
EXAMPLES: dict[str, tuple[Callable[[Path], list[str]], Profile, set[str]]] = {
    "library, bus": (lambda _: python("bus_worker_sdk.py"), "bus", set()),
    "library, packet": (lambda _: python("packet_worker_sdk.py"), "packet", set()),
    "shell, packet": (lambda _: shell("packet_worker.sh"), "packet", set()),
    "shell, bus": (lambda _: shell("bus_worker.sh"), "bus", OPTIONAL),
    "typescript, bus": (lambda _: typescript("bus_worker.ts"), "bus", OPTIONAL),
    "go, bus": (lambda folder: go("bus_worker.go", folder), "bus", OPTIONAL),
}


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_passes_the_kit(example: str, tmp_path: Path) -> None:
    command, profile, not_offered = EXAMPLES[example]
    argv = command(tmp_path)
    server = KitServer(tmp_path).start()
    try:
        kit = WorkerKit(command_starter(argv), server, tmp_path / "worker", WaitLimits(60))
        # To wait for what is only recommended takes the whole time.
        checks = [one for one in checks_of(profile) if one.required or "library" in example]
        results = kit.run(profile, [one.name for one in checks])
    finally:
        server.close()
    assert [one for one in results if one.outcome == "broken"] == []
    assert {one.check.name for one in results if one.outcome != "holds"} == not_offered


@pytest.mark.parametrize("example", ["shell, bus", "typescript, bus", "go, bus"])
def test_an_example_waits_for_a_token_that_the_server_accepts(
    example: str, tmp_path: Path, sqlite_path: str
) -> None:
    argv = EXAMPLES[example][0](tmp_path)
    file, errors = tmp_path / "worker.token", tmp_path / "errors"
    file.write_text("old-one\n")
    server = RunningServer(sqlite_path, token="new-one").start()
    variables = {
        "SHIFTBOSS_URL": server.url,
        "SHIFTBOSS_WORKER": "w1",
        "SHIFTBOSS_TOKEN_FILE": str(file),
    }
    with closing(server), errors.open("wb") as err:
        send = partial(post, server.url, headers={"Authorization": "Bearer new-one"})
        send("/bus/add_task", {"bead_id": "t1", "title": "done"})
        send("/bus/submit_task", {"bead_id": "t1"})
        worker = subprocess.Popen(
            argv, env=os.environ | variables, stderr=err, start_new_session=True
        )
        try:
            wait_until(lambda: b"token is not valid" in errors.read_bytes(), "the refusal is said")
            # The newest token comes first.
            file.write_text("new-one\nold-one\n")
            wait_until(
                lambda: send("/bus/show_task", {"bead_id": "t1"})["status"] == "done", "t1 is done"
            )
        finally:
            os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()


def post(url: str, path: str, body: object, headers: dict[str, str]) -> Any:
    return httpx2.post(url + path, json=body, headers=headers).raise_for_status().json()


def test_the_typescript_example_has_the_types_that_it_claims() -> None:
    compiler, types = Program(TYPESCRIPT), Program(NODE_TYPES)
    roots = ["--typeRoots", str(types.folder / "node_modules" / "@types")]
    done = subprocess.run(
        compiler.argv("tsc", "--project", str(WORKERS), "--noEmit", *roots),
        env=compiler.environment(),
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")
