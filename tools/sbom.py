"""Write the software bill of materials, CycloneDX JSON: `python -m tools.sbom > sbom.json`.

The components are those of requirements.lock, with the hashes of the files that may be installed.
What only development needs has the scope `excluded`. Same lock file, same bytes.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import sys
import uuid
from collections.abc import Mapping
from typing import Any, Final

from tools.lock_file import LOCK_FILE, ROOT, LockedPackage, read_lock

_NAMESPACE: Final = uuid.UUID("8c2a3c56-9d9f-4f27-a5f4-0f8f5b1f6c1e")
_VERSION: Final = re.compile(r'^__version__(?:: [^=]+)? = "([^"]+)"', re.MULTILINE)
_REQUIREMENT: Final = re.compile(r"^([A-Za-z0-9._-]+)(?:\[([^\]]*)\])?([^;]*)(?:;(.*))?$")


def main() -> int:
    json.dump(bill_of_materials(), sys.stdout, indent=2)
    sys.stdout.write("\n")
    return 0


def bill_of_materials() -> dict[str, Any]:
    text = LOCK_FILE.read_text()
    packages = {_normal(package.name): package for package in read_lock(text)}
    needs = {name: _requirements(name, packages) for name in packages}
    direct = _requirements("shiftboss", packages)
    used = _reachable(direct, needs)
    root = f"pkg:pypi/shiftboss@{_version()}"
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, root + text)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": "shiftboss",
                "version": _version(),
                "purl": root,
                "licenses": [{"license": {"id": "MIT"}}],
            }
        },
        "components": [
            _component(package, is_used=name in used) for name, package in packages.items()
        ],
        "dependencies": [
            {"ref": root, "dependsOn": sorted(_purl(packages[name]) for name in direct)},
            *(
                {
                    "ref": _purl(package),
                    "dependsOn": sorted(_purl(packages[n]) for n in needs[name]),
                }
                for name, package in packages.items()
            ),
        ],
    }


def _component(package: LockedPackage, *, is_used: bool) -> dict[str, Any]:
    """A package has several files, one for each platform, so the hashes are properties."""
    return {
        "type": "library",
        "bom-ref": _purl(package),
        "name": package.name,
        "version": package.version,
        "purl": _purl(package),
        "scope": "required" if is_used else "excluded",
        "properties": [
            {"name": "shiftboss:file:sha256", "value": value} for value in package.sha256
        ],
    }


def _purl(package: LockedPackage) -> str:
    return f"pkg:pypi/{_normal(package.name)}@{package.version}"


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _version() -> str:
    match = _VERSION.search((ROOT / "src" / "shiftboss" / "__init__.py").read_text())
    assert match is not None
    return match.group(1)


def _requirements(name: str, packages: Mapping[str, LockedPackage]) -> set[str]:
    """What a package requires, with the extras that we use. One that is not installed on this
    platform is listed without its own."""
    try:
        required = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return set()
    names = set()
    for text in required:
        match = _REQUIREMENT.match(text)
        assert match is not None, text
        is_extra = "extra ==" in (match.group(4) or "")
        if not is_extra or name == "shiftboss":
            names.add(_normal(match.group(1)))
    return names & set(packages)


def _reachable(start: set[str], needs: Mapping[str, set[str]]) -> set[str]:
    reached, pending = set(start), list(start)
    while pending:
        new = needs[pending.pop()] - reached
        reached |= new
        pending += new
    return reached


if __name__ == "__main__":
    sys.exit(main())
