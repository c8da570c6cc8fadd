"""Checks that the policy in force is what the policy files say."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from shiftboss.doctor.findings import Finding, ok, problem, warning
from shiftboss.doctor.server import DoctorClient, call_bus
from shiftboss.errors import ShiftbossError
from shiftboss.protocol.policy import Policy
from shiftboss.rules.contract.policy_changes import policy_changes
from shiftboss.rules.documents.wording import pluralize


def check_policy_in_force(client: DoctorClient, local: Policy, file: Path | None) -> list[Finding]:
    """`local` is the policy of `file`, which is on the machine of the doctor, if there is one."""
    try:
        view = call_bus(client, "show_policy")
        in_force = Policy.model_validate(view["policy"])
    except ShiftbossError as error:
        return [problem("policy", error.detail, error.hint or "look into the log of the server")]
    except (ValidationError, KeyError):
        todo = "install the same version on both sides"
        return [warning("policy", "the policy of the server cannot be read here", todo)]
    findings = _of_server(view)
    own = (view.get("file") or {}).get("path")
    changes = policy_changes(in_force, local) if file is not None else []
    if file is not None and changes and str(file.absolute()) != own:
        findings.append(_not_applied(str(file), len(changes), view))
    if not findings and view["version"]:
        findings.append(ok("policy", f"version {view['version']} is in force, as the file says"))
    return findings


def _of_server(view: dict[str, Any]) -> list[Finding]:
    findings = []
    if view.get("problem"):
        todo = "upgrade this server: no repo can be locked through it"
        findings.append(problem("policy", view["problem"], todo))
    own = view.get("file") or {}
    if own.get("problem"):
        todo = f"to see all problems, run: shiftboss policy check {shlex.quote(own['path'])}"
        findings.append(problem("policy", f"the server's file: {own['problem']}", todo))
    elif own.get("changes"):
        findings.append(_not_applied(own["path"], len(own["changes"]), view))
    return findings


def _not_applied(path: str, changes: int, view: dict[str, Any]) -> Finding:
    quoted = shlex.quote(path)
    return warning(
        "policy",
        f"{path} was edited and not applied: {pluralize(changes, 'change')} against version "
        f"{view['version']}, which is in force",
        f"to look at it: shiftboss policy diff {quoted}; to put it in force: "
        f"shiftboss policy apply {quoted}",
    )
