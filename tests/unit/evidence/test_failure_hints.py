"""The hint of a failed command: it names the sandbox only where that may be the reason."""

from __future__ import annotations

import pytest

from shiftboss.evidence.mirror.checkout import failure_hint
from shiftboss.rules.claims.criteria import CommandResult


def hint(output: str, sandbox: str = "bubblewrap") -> str:
    result = CommandResult(
        exit_code=1,
        timed_out=False,
        out_of_memory=False,
        output_tail=output,
        duration_ms=1,
        message="exit code 1",
        sandbox=sandbox,
    )
    return failure_hint("criterion", result)


@pytest.mark.requirement("OWN-16")
@pytest.mark.parametrize(
    "output",
    [
        "OSError: [Errno 101] Network is unreachable",
        "socket.gaierror: [Errno -3] Temporary failure in name resolution",
        "curl: (6) Could not resolve host: example.org",
        "dial tcp: lookup proxy.golang.org: no such host",
        "Error: connect ECONNREFUSED 10.0.0.1:5432",
        "npm ERR! code EAI_AGAIN",
        "PermissionError: [Errno 13] Permission denied: '/var/cache/x'",
        "mkdir: cannot create directory '/opt/x': Read-only file system",
        'Os { code: 13, kind: PermissionDenied, message: "..." }',
    ],
)
def test_network_and_permissions_may_be_the_sandbox(output: str) -> None:
    assert "it ran in a sandbox" in hint(f"collecting\n{output}\n1 failed")
    assert "sandbox" not in hint(output, "none: switched off by the policy")


@pytest.mark.requirement("OWN-16")
@pytest.mark.parametrize(
    "output", ["", "E   assert 2 == 3\n1 failed in 0.01s", "not found: ./check.sh"]
)
def test_other_failures_do_not_name_the_sandbox(output: str) -> None:
    assert "sandbox" not in hint(output)
