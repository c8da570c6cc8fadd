"""`python3` without the detour over a version manager."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path


def use_real_python() -> None:
    """Applies to this process and its children.

    Version managers such as pyenv put a shell script in the place of `python3`, which takes ten
    times as long to start the interpreter. Hundreds of commands in the tests are `python3 ...`.
    """
    found = shutil.which("python3")
    interpreter = Path(sys.executable).resolve()
    if found is None or not (interpreter.parent / "python3").exists():
        return
    with Path(found).open("rb") as program:
        is_script = program.read(2) == b"#!"
    if is_script:
        os.environ["PATH"] = f"{interpreter.parent}{os.pathsep}{os.environ['PATH']}"
