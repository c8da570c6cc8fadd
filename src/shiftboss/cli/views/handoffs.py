"""Contracts, owners, scope requests, verdicts, receipts and strategies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from rich.console import RenderableType
from rich.table import Column, Table
from rich.text import Text

from shiftboss.cli.common.output import printable
from shiftboss.cli.common.tables import Members, add_fact, cell, facts_grid, plain_table
from shiftboss.cli.common.times import ago_ms
from shiftboss.rules.claims.refusal_advice import waive_commands
from shiftboss.rules.claims.survivors import survivor_lines
from shiftboss.rules.documents.wording import pluralize

# The end of a failed command's output, enough to see what is wrong.
OUTPUT_LINES_MAX: Final = 15
VIOLATIONS_SHOWN_MAX: Final = 100
HASH_CHARACTERS: Final = 12
PATHS_SHOWN_MAX: Final = 40


def handoff_summary(view: Members, at: datetime) -> Table:
    """The contract that is enforced, a line for each part."""
    contract = view["handoff"]["contract"]
    lines = facts_grid()
    add_fact(lines, "task", view["bead_id"], "bold")
    add_fact(lines, "contract", f"version {view['version']}, {view['hash'][:HASH_CHARACTERS]}")
    add_fact(lines, "created", f"{ago_ms(view['created_at'], at)}: {view['reason']}")
    add_fact(lines, "repo", view["repo"])
    add_fact(lines, "base", view["base_commit"])
    for name in ("branch", "target", "strategy"):
        if view[name]:
            add_fact(lines, name, view[name])
    _add_list(lines, "owns", contract["files_owned"] or ["nothing: it only reads"])
    _add_list(lines, "read only", contract["files_readonly"])
    _add_list(lines, "done when", contract["success_criteria"])
    changing = view["policy"].get("expectations_change", [])
    _add_list(lines, "may change", [f"what tests expect in {pattern}" for pattern in changing])
    _add_list(lines, "after", contract["dependencies_completed"])
    _add_list(lines, "waived", [_waiver(waiver) for waiver in view["waivers"]], "yellow")
    return lines


def _add_list(lines: Table, name: str, values: list[str], style: str = "") -> None:
    for number, value in enumerate(values[:PATHS_SHOWN_MAX]):
        add_fact(lines, name if number == 0 else "", value, style)
    if len(values) > PATHS_SHOWN_MAX:
        add_fact(lines, "", f"and {len(values) - PATHS_SHOWN_MAX} more; see --json")


def _waiver(waiver: Members) -> str:
    subject = "" if waiver["subject"] == "*" else f" of {waiver['subject']}"
    return f"{waiver['check']}{subject} by {waiver['granted_by']}: {waiver['reason']}"


def owners_table(holders: list[Members]) -> Table:
    """For given paths, the patterns that overlap with them; else everything that is owned."""
    with_overlap = "wanted" in holders[0]
    fixed = [Column(name, no_wrap=True) for name in ("TASK", "SWARM")]
    table = plain_table(
        *fixed, "OWNS", *(["OVERLAPS WITH", "EXAMPLE PATH"] if with_overlap else [])
    )
    for holder in holders:
        owned = holder["owned"] if with_overlap else ", ".join(holder["owned"])
        row = [cell(holder["bead_id"]), cell(holder["swarm_id"]), Text(printable(owned))]
        if with_overlap:
            row += [Text(printable(holder[name])) for name in ("wanted", "example")]
        table.add_row(*row)
    return table


def scope_table(requests: list[Members], at: datetime) -> Table:
    """Paths and reasons are not cut off: the operator needs them to decide."""
    columns = [Column(name, no_wrap=True) for name in ("ID", "TASK", "WORKER", "STATUS", "ASKED")]
    table = plain_table(*columns, "PATHS", "REASON")
    for request in requests:
        table.add_row(
            *(cell(request[name]) for name in ("request_id", "bead_id", "worker", "status")),
            cell(ago_ms(request["asked_at"], at)),
            Text(printable(", ".join(request["paths"]))),
            Text(printable(request["reason"])),
        )
    return table


_STYLES: Final = {
    "passed": "green",
    "failed": "bold red",
    "unverifiable": "yellow",
    "waived": "yellow",
}


def check_lines(checks: Sequence[Members]) -> list[RenderableType]:
    """The checks of a verdict, then the changes of the work that no test noticed."""
    return [_checks_table(checks, _message), *_survivors(checks)]


def receipt_check_lines(checks: Sequence[Members]) -> list[RenderableType]:
    """The checks of a receipt, with their evidence."""
    return [_checks_table(checks, _evidence), *_survivors(checks)]


def _checks_table(checks: Sequence[Members], describe: Callable[[Members], str]) -> Table:
    """A check always has `check` and `outcome`; other members only if they apply."""
    table = plain_table(
        *(Column(name, no_wrap=True) for name in ("CHECK", "OUTCOME", "TIME")), "DETAILS"
    )
    for check in checks:
        details = [check.get("subject"), describe(check)]
        table.add_row(
            cell(check["check"]),
            cell(check["outcome"], _STYLES.get(check["outcome"], "")),
            cell(_seconds(check.get("duration_ms", 0))),
            Text(printable(": ".join(part for part in details if part))),
        )
    return table


def _message(check: Members) -> str:
    return check.get("message") or ""


def _evidence(check: Members) -> str:
    """The findings of a check in a receipt, and the sandbox that contained it."""
    facts = []
    tests, code = check.get("tests"), check.get("exit_code")
    if tests and check["check"] == "held_out":  # its message tells next to nothing
        facts.append(f"{pluralize(tests['ran'], 'test')} ran, {tests['passed']} passed")
    if check.get("message"):
        facts.append(check["message"])
    elif code is not None:  # receipts of format 1 have no messages
        facts.append(f"exit code {code}")
    if tests and tests["skipped"]:
        facts.append(f"{tests['skipped']} skipped")
    if check.get("sandbox"):
        facts.append(f"sandbox: {check['sandbox']}")
    return ", ".join(facts)


def _survivors(checks: Sequence[Members]) -> Iterator[Text]:
    for check in checks:
        lines = survivor_lines(check)
        if lines:
            yield Text(f"changes not noticed by {printable(check.get('subject') or 'tests')}:")
            yield from (Text(f"  {printable(line)}") for line in lines)


def _seconds(duration_ms: int) -> str:
    return f"{duration_ms / 1000:.1f}s" if duration_ms else ""


def refusal_lines(verdict: Mapping[str, Any]) -> list[RenderableType]:
    """Every violation with its hint, and the output of the commands that failed."""
    violations: list[Members] = verdict.get("violations", [])
    lines: list[RenderableType] = []
    for violation in violations[:VIOLATIONS_SHOWN_MAX]:
        lines.append(Text(f"- {printable(violation['message'])}", style="red"))
        lines.append(Text(f"  {printable(violation['hint'])}"))
    if len(violations) > VIOLATIONS_SHOWN_MAX:
        lines.append(Text(f"and {len(violations) - VIOLATIONS_SHOWN_MAX} more; see --json"))
    for check in verdict.get("checks", []):
        if check["outcome"] == "failed" and check.get("output_tail"):
            lines += _output(check)
    return lines


def _output(check: Members) -> list[Text]:
    tail = check["output_tail"].rstrip().splitlines()[-OUTPUT_LINES_MAX:]
    return [
        Text(f"the end of the output of {printable(check.get('subject', 'the command'))}:"),
        *(Text(f"  {printable(line)}", style="dim") for line in tail),
    ]


def claim_lines(claim: dict[str, Any] | None) -> list[RenderableType]:
    """A claim with its verdict; nothing if there is no claim yet."""
    if claim is None:
        return []
    title = f"claim {claim['claim_id']} of {claim['worker']}, attempt {claim['epoch']}: "
    lines: list[RenderableType] = [Text(), Text(printable(title + claim["state"]), style="bold")]
    if claim["state"] == "taken" and claim.get("verifier"):
        lines.append(Text(printable(f"being verified by {claim['verifier']}")))
    for passed in claim.get("passes", []) if claim["state"] in ("waiting", "taken") else []:
        text = f"{passed['verifier']} cannot verify it: {passed['reason']}"
        lines.append(Text(printable(text), style="yellow"))
    verdict = claim["verdict"]
    if verdict is None:
        return lines
    return [*lines, *check_lines(verdict["checks"]), *refusal_lines(verdict)]


def waive_lines(swarm_id: str, task_id: str, claim: Members | None) -> list[Text]:
    """For the operator: how to accept what refused the claim; nothing if it was not refused."""
    if claim is None or claim["state"] != "refused" or claim["verdict"] is None:
        return []
    checks = [violation["check"] for violation in claim["verdict"].get("violations", [])]
    commands = waive_commands(swarm_id, task_id, checks)
    if not commands:
        return []
    lines = [Text(f"  {printable(command)}", style="cyan", no_wrap=True) for command in commands]
    return [Text("to accept it although a check fails (operator):"), *lines]


def receipts_table(receipts: list[Members], at: datetime) -> Table:
    columns = [Column(name, no_wrap=True) for name in ("TASK", "SWARM", "COMMIT", "ACCEPTED")]
    table = plain_table(*columns, "TITLE")
    for receipt in receipts:
        table.add_row(
            cell(receipt["bead_id"]),
            cell(receipt["swarm_id"]),
            cell(receipt["commit"][:HASH_CHARACTERS]),
            cell(ago_ms(receipt["accepted_at"], at)),
            cell(receipt["title"]),
        )
    return table


def receipt_summary(signed: Members) -> Table:
    body = signed["receipt"]
    diff = body["diff"]
    lines = facts_grid()
    add_fact(lines, "receipt", body["receipt_id"], "bold")
    add_fact(lines, "task", f"{body['bead_id']} in {body['swarm_id']}")
    add_fact(lines, "worker", f"{body['worker']}, attempt {body['epoch']}")
    add_fact(lines, "claimed by", body["claimed_by"] or "(no name given)")
    if body.get("actor"):
        add_fact(lines, "actor", body["actor"])
    if body["summary"]:
        add_fact(lines, "summary", body["summary"])
    add_fact(lines, "repo", body["repo"])
    for name in ("branch", "base_commit", "commit", "tree", "strategy"):
        if body[name]:
            add_fact(lines, name.removesuffix("_commit"), body[name])
    files = "1 file" if diff["files_changed"] == 1 else f"{diff['files_changed']} files"
    add_fact(lines, "change", f"{files}, +{diff['lines_added']} -{diff['lines_deleted']}")
    add_fact(
        lines,
        "contract",
        f"version {body['contract_version']}, {body['contract_hash'][:HASH_CHARACTERS]}",
    )
    if "policy" in body:
        add_fact(lines, "policy", _policy_text(body["policy"]))
        _add_list(lines, "allows", _allowed(body["policy"]), "yellow")
    for waiver in body["waivers"]:
        subject = f"{waiver['check']} ({waiver['subject']})"
        text = f"{subject} by {waiver['granted_by']}: {waiver['reason']}"
        add_fact(lines, "waiver", text, "yellow")
    add_fact(lines, "accepted", f"{body['accepted_at']}, claimed {body['claimed_at']}")
    add_fact(lines, "key", signed["key_id"])
    return lines


def _policy_text(policy: Members) -> str:
    """How the work was to be tested. Unknown members are those of another version."""
    mutants = policy.get("mutants")
    if isinstance(mutants, dict):
        mutants = f"at least {mutants.get('require', 0):.0%} noticed"
    shown = {**policy, "mutants": mutants}
    names = ("canaries", "mutants", "sandbox", "network")
    return ", ".join(f"{name}: {shown[name]}" for name in names if shown.get(name) is not None)


def _allowed(policy: Members) -> list[str]:
    """Permissions beyond the default, which weaken the proof."""
    allowed = []
    if policy.get("test_removal") == "allow":
        allowed.append("removing and skipping tests of the base (test_removal: allow)")
    changed, generated = policy.get("expectations_change") or (), policy.get("generated") or ()
    allowed += [f"other expectations in {path} (expectations_change)" for path in changed]
    return [*allowed, *(f"changes of {path} (generated)" for path in generated)]


def strategy_table(strategies: list[Members]) -> Table:
    """The best first. The success rate is estimated, with the range in which it probably lies."""
    numbers = [Column(name, no_wrap=True) for name in ("SAMPLES", "WINS", "LOSSES", "DISPUTES")]
    rate = Column("SUCCESS RATE", no_wrap=True)
    table = plain_table(Column("STRATEGY", no_wrap=True), *numbers, rate)
    for record in sorted(strategies, key=lambda record: (-record["mean"], record["strategy"])):
        table.add_row(
            cell(record["strategy"]),
            cell(record["samples"]),
            cell(f"{record['wins']:.1f}"),
            cell(f"{record['losses']:.1f}"),
            cell(record["disputes"]),
            cell(f"{record['mean']:.0%} ({record['low']:.0%} to {record['high']:.0%})"),
        )
    return table
