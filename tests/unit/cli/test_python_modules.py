"""How our own modules are started."""

from __future__ import annotations

import re
from pathlib import Path

import shiftboss
from shiftboss.system.processes.descendants import python_argv


def test_modules_in_the_current_folder_are_never_imported() -> None:
    """A cloned repository may contain a `typer.py`: without -P, `python -m` would run it."""
    assert python_argv("shiftboss.cli.main", "serve")[1:] == [
        *("-P", "-m", "shiftboss.cli.main", "serve"),
    ]
    starts = re.compile(r'sys\.executable, "-m"')
    package = Path(shiftboss.__file__).parent
    assert [file for file in package.rglob("*.py") if starts.search(file.read_text())] == []
