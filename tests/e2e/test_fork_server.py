"""A forked process behaves like a started one: each test runs with both."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from shiftboss import __version__
from tests.fork_server import Process, forked_command, start_python
from tests.fork_server_process import NEW_CHILDREN
from tests.waiting import wait_until

SECONDS = 30
LOOK = """
import json, os, resource, signal, sys, tempfile, threading
print(json.dumps({
    "argv": sys.argv,
    "path": sys.path[0],
    "folder": os.getcwd(),
    "environment": dict(os.environ),
    "temporary": tempfile.gettempdir(),
    "group": os.getpgid(0),
    "session": os.getsid(0),
    "niceness": os.getpriority(os.PRIO_PROCESS, 0),
    "mask": os.umask(0),
    "files": sorted(int(one) for one in os.listdir("/proc/self/fd"))[:-1],
    "threads": threading.active_count(),
    "signals": {str(one): str(signal.getsignal(one)) for one in signal.valid_signals()},
    "blocked": list(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    "limits": resource.getrlimit(resource.RLIMIT_NOFILE),
    "streams": [
        (one.encoding, one.errors, one.line_buffering, one.write_through, one.isatty())
        for one in (sys.stdin, sys.stdout, sys.stderr)
    ],
    "warnings": sys.warnoptions,
    "name": __name__,
}))
"""

Start = Callable[..., Process]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="nothing is forked here")


@pytest.fixture(params=[True, False], ids=["forked", "started"])
def start(request: pytest.FixtureRequest) -> Start:
    def start(*arguments: str, **how: object) -> Process:
        return start_python(arguments, forked=request.param, **how)  # type: ignore[arg-type]

    return start


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_forked_process_has_everything_a_new_process_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unbuffered: str
) -> None:
    monkeypatch.chdir(tmp_path)
    environment = {"PATH": "/bin", "ONE": "ü", "TMPDIR": str(tmp_path)}
    environment |= {"PYTHONUNBUFFERED": unbuffered} if unbuffered else {}
    seen = []
    for forked in (True, False):
        with start_python(["-c", LOOK, "a", ""], environment=environment, forked=forked) as process:
            out, err = process.communicate(timeout=SECONDS)
        assert (process.returncode, err) == (0, b"")
        seen.append(json.loads(out))
        # Set by an interpreter that was told of no language.
        seen[-1]["environment"].pop("LC_CTYPE", None)
    assert seen[0] == seen[1]
    assert seen[0]["argv"] == ["-c", "a", ""]
    assert seen[0]["files"] == [0, 1, 2]


def test_a_module_can_be_run_as_the_program(start: Start, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import sys\nprint(__name__, __file__, *sys.argv)\n")
    with start("-m", "mine", "word", folder=tmp_path) as process:
        out, _ = process.communicate(timeout=SECONDS)
    file = tmp_path / "mine.py"
    assert out.decode() == f"__main__ {file} {file} word\n"


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("", 0),
        ("raise SystemExit", 0),
        ("raise SystemExit(3)", 3),
        ("raise SystemExit(-1)", 255),
        ("raise SystemExit('why')", 1),
        ("1 / 0", 1),
        ("raise KeyboardInterrupt", -signal.SIGINT),
        ("import os; os._exit(4)", 4),
        ("import os; os.abort()", -signal.SIGABRT),
        ("import signal; signal.raise_signal(signal.SIGTERM)", -signal.SIGTERM),
    ],
)
def test_the_exit_code_and_the_traceback_are_passed_on(
    start: Start, program: str, code: int
) -> None:
    with start("-c", program) as process:
        _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == code
    assert (b"why" in err, b"ZeroDivisionError" in err) == ("why" in program, "/" in program)


def test_threads_and_exit_handlers_finish_before_the_process_ends(start: Start) -> None:
    program = (
        "import atexit, threading, time\n"
        "atexit.register(print, 'last')\n"
        "threading.Timer(0.05, print, ['thread']).start()\n"
        "print('first')\n"
    )
    with start("-c", program) as process:
        out, _ = process.communicate(timeout=SECONDS)
    assert out.decode() == "first\nthread\nlast\n"


def test_a_broken_output_pipe_sets_the_exit_code(start: Start) -> None:
    program = "import sys; sys.stdin.read(); print('x' * 100)"
    environment = {"PATH": "/bin"}
    with start("-c", program, stdin=subprocess.PIPE, environment=environment) as process:
        assert process.stdout is not None
        process.stdout.close()
        _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 120
    assert b"BrokenPipeError" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_the_process(start: Start, number: signal.Signals) -> None:
    with start("-c", "import time; print('begun', flush=True); time.sleep(600)") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        process.send_signal(number)
        assert process.wait(SECONDS) == -number
        process.send_signal(number)  # too late, but harmless


def test_input_and_output_go_through_pipes(start: Start) -> None:
    program = "import sys; sys.stderr.write(sys.stdin.read()); print('x' * 300_000)"
    with start("-c", program, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b"told")
        out, err = process.communicate(timeout=SECONDS)
    assert (len(out), err) == (300_001, b"told")


def test_interpreter_variables_cause_a_new_interpreter() -> None:
    program = "import sys; print(sys.flags.optimize)"
    environment = {**os.environ, "PYTHONOPTIMIZE": "2"}
    with start_python(["-c", program], environment=environment) as process:
        assert process.communicate(timeout=SECONDS)[0] == b"2\n"


def test_forked_processes_end_with_the_tests_however_they_end() -> None:
    program = (
        "from tests.fork_server import start_python\n"
        "child = start_python(['-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid, flush=True)\n"
        "child.wait()\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as tests:
        assert tests.stdout is not None
        child = int(tests.stdout.readline())
        helper = psutil.Process(child).ppid()
        assert helper != tests.pid
        tests.kill()
    for pid in (child, helper):
        wait_until(lambda pid=pid: not _runs(pid), "it has ended", SECONDS)  # type: ignore[misc]


def test_a_proxy_passes_on_what_its_process_inherits_and_returns(tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "os.write(int(sys.argv[1]), b'told')\n"
        "print(os.getcwd(), os.getpgrp() == os.getpid(), os.getsid(0) == os.getpid())\n"
        "print(sys.stdin.read(), os.environ['ONE'], file=sys.stderr)\n"
        "sys.exit(3)\n"
    )
    reading, writing = os.pipe()
    with subprocess.Popen(
        forked_command(["-c", program, str(writing)]),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=[writing],
        env={"ONE": "ü"},
        cwd=tmp_path,
        start_new_session=True,
    ) as process:
        os.close(writing)
        out, err = process.communicate(b"asked", SECONDS)
    assert os.read(reading, 100) == b"told"
    assert os.read(reading, 100) == b"", "nobody else holds it"
    os.close(reading)
    assert out.decode() == f"{tmp_path} True True\n"
    assert err.decode() == "asked ü\n"
    assert process.returncode == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_proxy_and_its_process_end_together(number: signal.Signals) -> None:
    program = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    for end_proxy in (True, False):
        argv = forked_command(["-c", program])
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as proxy:
            assert proxy.stdout is not None
            pid = int(proxy.stdout.readline())
            assert pid != proxy.pid
            os.kill(proxy.pid if end_proxy else pid, number)
            assert proxy.wait(SECONDS) == -number
        wait_until(lambda pid=pid: not _runs(pid), "it has ended", SECONDS)  # type: ignore[misc]


@pytest.mark.parametrize("is_new", [True, False])
def test_a_forked_process_has_its_slow_children_forked_unless_told_otherwise(is_new: bool) -> None:
    program = (
        "import subprocess, sys\n"
        "argv = [sys.executable, '-P', '-m', 'shiftboss.cli.main', '--version']\n"
        "with subprocess.Popen(argv) as child:\n"
        "    print(any('fork_proxy' in one for one in child.args), flush=True)\n"
    )
    environment = {**os.environ, **({NEW_CHILDREN: "1"} if is_new else {})}
    with start_python(["-c", program], environment=environment) as process:
        out, err = process.communicate(timeout=SECONDS)
    assert err == b""
    assert sorted(out.decode().splitlines()) == [str(not is_new), f"shiftboss {__version__}"]


def _runs(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
