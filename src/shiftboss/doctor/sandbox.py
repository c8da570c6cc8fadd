"""Whether the commands of contracts run in a sandbox on this machine, and how they could."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from shiftboss.doctor.findings import Finding, ok, warning
from shiftboss.evidence.commands.sandbox import Backend, find_backend

# Settings of the kernel that forbid namespaces to ordinary users: the value that forbids them, and
# the value to set.
_SETTINGS: Final = {
    "user.max_user_namespaces": ("0", "15000"),
    "kernel.unprivileged_userns_clone": ("0", "1"),
    "kernel.apparmor_restrict_unprivileged_userns": ("1", "0"),
}
_INSTALLERS: Final = {
    "apt-get": "sudo apt-get install bubblewrap",
    "dnf": "sudo dnf install bubblewrap",
    "pacman": "sudo pacman -S bubblewrap",
    "zypper": "sudo zypper install bubblewrap",
    "apk": "sudo apk add bubblewrap",
}
_ELSEWHERE: Final = (
    "verify on a Linux machine that allows user namespaces (in a container, its settings decide): "
    "shiftboss verifier --help"
)


async def check_sandbox() -> list[Finding]:
    backend = await find_backend()
    settings = await asyncio.to_thread(_read_settings)
    installed = [name for name in (*_INSTALLERS, "bwrap") if shutil.which(name)]
    return judge_sandbox(backend, settings, installed)


def judge_sandbox(
    backend: Backend, settings: Mapping[str, str], installed: Collection[str]
) -> list[Finding]:
    """`settings` are values of sysctl, `installed` are programs."""
    if backend.name is not None:
        return [ok("sandbox", f"the commands of contracts run in a sandbox ({backend.name})")]
    return [
        warning(
            "sandbox",
            f"the commands of contracts run without a sandbox: {backend.reason}",
            _advice(settings, installed),
        )
    ]


def _advice(settings: Mapping[str, str], installed: Collection[str]) -> str:
    for name, (forbidding, allowing) in _SETTINGS.items():
        if settings.get(name) == forbidding:
            return f"allow user namespaces: sudo sysctl -w {name}={allowing}"
    installer = next((name for name in _INSTALLERS if name in installed), None)
    if "bwrap" in installed or installer is None:
        return _ELSEWHERE
    return f"install bubblewrap: {_INSTALLERS[installer]}"


def _read_settings() -> dict[str, str]:
    """Those that this kernel has."""
    values = {}
    for name in _SETTINGS:
        try:
            values[name] = Path("/proc/sys", *name.split(".")).read_text().strip()
        except OSError:
            continue
    return values
