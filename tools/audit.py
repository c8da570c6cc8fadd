"""Ask the OSV database which locked packages have known vulnerabilities: `python -m tools.audit`.

It needs the network. Without an answer the audit is skipped, which is said, and is no failure.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Final

from tools.lock_file import LOCK_FILE, LockedPackage, read_lock

SERVICE: Final = os.environ.get("SHIFTBOSS_AUDIT_URL", "https://api.osv.dev/v1/querybatch")
ANSWER_SECONDS: Final = 3.0


class NoAnswerError(Exception):
    """The database cannot be asked; the message says why."""


def main() -> int:
    packages = read_lock(LOCK_FILE.read_text())
    try:
        found = vulnerabilities(packages)
    except NoAnswerError as reason:
        print(f"audit skipped, the vulnerability database gives no answer: {reason}")
        return 0
    for package, ids in found:
        print(f"{package.name} {package.version}: {', '.join(ids)}")
    if not found:
        print(f"audit: no known vulnerability in {len(packages)} packages")
    return 1 if found else 0


def vulnerabilities(packages: Sequence[LockedPackage]) -> list[tuple[LockedPackage, list[str]]]:
    """Raises NoAnswerError. Anything but an answer to every query is none: a proxy may answer."""
    results = _ask(packages).get("results")
    if not isinstance(results, list) or len(results) != len(packages):
        raise NoAnswerError("the answer is not one of the database")
    found = [
        (package, [str(entry["id"]) for entry in result.get("vulns", [])])
        for package, result in zip(packages, results, strict=True)
    ]
    return [(package, ids) for package, ids in found if ids]


def _ask(packages: Sequence[LockedPackage]) -> dict[str, object]:
    queries = [
        {"package": {"ecosystem": "PyPI", "name": package.name}, "version": package.version}
        for package in packages
    ]
    request = urllib.request.Request(  # noqa: S310 - the address is ours
        SERVICE,
        json.dumps({"queries": queries}).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:  # noqa: S310
            document = json.load(answer)
    except (OSError, urllib.error.URLError, ValueError) as error:
        raise NoAnswerError(getattr(error, "reason", None) or error) from error
    if not isinstance(document, dict):
        raise NoAnswerError("the answer is not one of the database")
    return document


if __name__ == "__main__":
    sys.exit(main())
