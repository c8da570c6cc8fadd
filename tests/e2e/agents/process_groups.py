"""Commands in their own process groups, which end with them."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


def run_group(
    argv: list[str],
    seconds: float,
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run to the end. Raises TimeoutExpired when that takes too long."""
    with group(argv, environment=environment, folder=folder) as process:
        out, err = process.communicate(timeout=seconds)
        return subprocess.CompletedProcess(argv, process.returncode, out, err)


@contextmanager
def group(
    argv: list[str],
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Iterator[subprocess.Popen[str]]:
    """The command and every process it starts are gone at the end of the `with`."""
    with subprocess.Popen(
        argv,
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
