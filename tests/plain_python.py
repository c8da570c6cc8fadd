"""A `python3` that starts quickly, for the criteria and agents of tests.

The `python3` of a machine may be a shell script of a version manager, and its site packages may
contain files that import much whenever Python starts: together up to ten times the time of a bare
start. Tests start it more than a thousand times. And `python -m pytest` with the plugins that this
suite needs takes three times as long as without them.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path
from typing import Final

# It is in the environment of the tests, so that commands in a sandbox can read it as well.
_FOLDER: Final = Path(sys.prefix) / "plain-python"
# All of pytest. Nothing in there names plugins.
_MODULES: Final = ("pytest", "_pytest", "iniconfig", "packaging", "pluggy", "py", "pygments")


def use_plain_python() -> None:
    """Put an environment with nothing but pytest first on the PATH of this process and its
    children, as `python3`."""
    if not _FOLDER.exists():
        _make(_FOLDER)
    bin_folder = str(_FOLDER / "bin")
    if bin_folder not in os.environ["PATH"].split(os.pathsep):
        os.environ["PATH"] = f"{bin_folder}{os.pathsep}{os.environ['PATH']}"


def _make(folder: Path) -> None:
    """Like `python -m venv`, with links to the packages."""
    new = folder.with_name(f"{folder.name}.{os.getpid()}")
    interpreter = Path(sys.executable).resolve()
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = new / "lib" / version / "site-packages"
    packages.mkdir(parents=True)
    (new / "bin").mkdir()
    (new / "bin" / "python3").symlink_to(interpreter)
    (new / "pyvenv.cfg").write_text(
        f"home = {interpreter.parent}\ninclude-system-site-packages = false\n"
    )
    for name in _MODULES:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        file = Path(spec.origin)
        module = file.parent if spec.submodule_search_locations else file
        (packages / module.name).symlink_to(module)
    try:
        new.rename(folder)
    except OSError:  # another session was faster
        shutil.rmtree(new)
