"""The worker protocol's document as written: its verification command and its test file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[3]
# Word for word.
VERIFICATION = """\
cd .mahabharatha && python -c "
from protocol import WorkerProtocol, WorkerState
from messages import MessageType, AssignMessage, CompleteMessage

# Test state machine
wp = WorkerProtocol('worker-1')
assert wp.state == WorkerState.IDLE
assert wp.can_accept_task()

# Valid transition
assert wp.transition(WorkerState.ASSIGNED)
assert wp.state == WorkerState.ASSIGNED

# Invalid transition (can't go from ASSIGNED to COMPLETE directly)
assert not wp.transition(WorkerState.COMPLETE)

# Continue valid path
assert wp.transition(WorkerState.EXECUTING)
assert wp.transition(WorkerState.VERIFYING)
assert wp.transition(WorkerState.SELF_REVIEW)
assert wp.transition(WorkerState.COMPLETE)

print('OK: Protocol and messages work correctly')
"
"""


def in_shell(command: str) -> subprocess.CompletedProcess[str]:
    """As a person runs it, with this Python first on the path."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    foreign = ("PYTEST_", "COV_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return subprocess.run(
        ["bash", "-c", command],
        cwd=PROJECT,
        env=kept | {"PATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.requirement("WP-04")
def test_the_documents_verification_command_passes_as_written() -> None:
    done = in_shell(VERIFICATION)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "OK: Protocol and messages work correctly\n"


@pytest.mark.requirement("WP-04")
def test_the_documents_test_file_passes() -> None:
    done = in_shell("pytest .mahabharatha/tests/test_protocol.py -p no:cacheprovider")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout


@pytest.mark.requirement("WP-04")
def test_the_flat_modules_have_every_documented_name() -> None:
    done = in_shell(
        'cd .mahabharatha && python -c "'
        "from protocol import WorkerProtocol, WorkerState, CONTEXT_THRESHOLD, "
        "check_context_threshold, create_checkpoint_signal; "
        "from messages import MessageType, Message, AssignMessage, HeartbeatMessage, "
        'CompleteMessage, FailedMessage"'
    )
    assert (done.returncode, done.stderr) == (0, "")
