"""Clean checkouts: the files of one commit and nothing else, with or without the setup commands."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from shiftboss.errors import EvidenceUnavailable
from shiftboss.evidence.commands.command import (
    CommandSandbox,
    Limits,
    checkout_environment,
    run_command,
)
from shiftboss.evidence.commands.sandbox import Backend, Containment, contain, find_backend
from shiftboss.evidence.mirror.comparison import KeptIndex, compare, keep_index
from shiftboss.evidence.mirror.mirror import Mirror
from shiftboss.evidence.mirror.overlays import NO_OVERLAY, Overlay, commit_files, lay_over
from shiftboss.protocol.claims.verdicts import CheckName, CheckResult, VerificationJob, Violation
from shiftboss.protocol.handoffs import VerificationPolicy
from shiftboss.rules.claims.criteria import CommandResult, parse_command
from shiftboss.rules.claims.sandbox_traces import looks_contained
from shiftboss.rules.claims.verdicts import (
    CheckOutcome,
    is_waived,
    passed_unless_violated,
    unverifiable,
    with_waivers,
)
from shiftboss.rules.paths.setup_changes import setup_violations
from shiftboss.system.background_delete import BackgroundDelete
from shiftboss.system.git import checked, git

CHECKOUT_SECONDS: Final = 300.0
# The subject of the check, for waivers.
ALTERED: Final = "the checkout equals the commit after the setup"

# Attributes of the commit may name filters; without a configuration, these do nothing.
_CONFIG: Final = """\
[core]
	repositoryformatversion = 0
	bare = false
	hooksPath = /dev/null
	symlinks = true
	fileMode = true
[gc]
	auto = 0
[maintenance]
	auto = false
"""


_HINT: Final = "run it in a fresh clone of the commit; the check has the end of its output"
_CONTAINED_HINT: Final = (
    f"{_HINT}; it ran in a sandbox, which may be why: see `network` and `sandbox` in the policy"
)
_SANDBOX_HINT: Final = (
    "ask the operator: `shiftboss doctor` on the machine of the verifier says what it lacks; with "
    "`sandbox: auto` in the policy, commands run without a sandbox there"
)


class Checkout(NamedTuple):
    """`home` is an empty folder beside the files: the home folder of commands."""

    folder: Path

    @property
    def files(self) -> Path:
        return self.folder / "files"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def temporary(self) -> Path:
        """In a sandbox, it stands for the folders of the system for temporary files."""
        return self.folder / "tmp"


@asynccontextmanager
async def clean_checkout(
    mirror: Mirror, commit: str, deletion: BackgroundDelete
) -> AsyncIterator[Checkout]:
    """The files of the commit, in a repository of their own with the commit as its HEAD.

    The checkout is in the folder of `deletion`, which deletes it afterwards.
    """
    checkout = Checkout(deletion.folder / uuid.uuid4().hex)
    try:
        await asyncio.to_thread(_prepare, checkout, mirror.path, commit)
        async with deletion.writing:
            await _write_files(checkout, commit)
        yield checkout
    finally:
        await deletion.discard(checkout.folder)


async def _write_files(checkout: Checkout, commit: str) -> None:
    output = await git(
        ["-c", "checkout.workers=1", "read-tree", "--reset", "-u", commit],
        checkout.files,
        seconds=CHECKOUT_SECONDS,
        environment={
            "GIT_DIR": str(checkout.files / ".git"),
            "GIT_WORK_TREE": str(checkout.files),
        },
    )
    checked(output, f"the checkout of {commit}")


def _prepare(checkout: Checkout, mirror: Path, commit: str) -> None:
    """Make a repository that borrows its objects from the mirror."""
    own = checkout.files / ".git"
    (own / "objects" / "info").mkdir(parents=True)
    (own / "refs" / "heads").mkdir(parents=True)
    (own / "objects" / "info" / "alternates").write_text(f"{mirror.resolve() / 'objects'}\n")
    (own / "config").write_text(_CONFIG)
    (own / "HEAD").write_text(f"{commit}\n")
    checkout.home.mkdir()
    checkout.temporary.mkdir()


class CheckoutWithSetup(NamedTuple):
    """A checkout in which the setup commands of the policy were run.

    `sandbox` contains the criteria. `setup` are the results of the setup commands, `failed_setup`
    is the first that failed, if one did.
    """

    checkout: Checkout
    limits: Limits
    environment: Mapping[str, str]
    sandbox: CommandSandbox
    setup: Sequence[CheckOutcome] = ()
    failed_setup: str | None = None

    @property
    def files(self) -> Path:
        return self.checkout.files

    @property
    def home(self) -> Path:
        return self.checkout.home

    async def run(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        seconds: float | None = None,
        output_bytes: int | None = None,
    ) -> CommandResult:
        """`environment` has additional variables; the others replace the limits of the policy."""
        limits = replace(
            self.limits,
            seconds=min(seconds or self.limits.seconds, self.limits.seconds),
            output_bytes=output_bytes or self.limits.output_bytes,
        )
        variables = {**self.environment, **(environment or {})}
        return await run_command(argv, self.files, limits, variables, self.sandbox)


@asynccontextmanager
async def checkout_with_setup(
    mirror: Mirror,
    commit: str,
    job: VerificationJob,
    deletion: BackgroundDelete,
    overlay: Overlay = NO_OVERLAY,
) -> AsyncIterator[CheckoutWithSetup]:
    async with clean_checkout(mirror, commit, deletion) as checkout:
        if overlay.files and not overlay.after_setup:
            await commit_files(checkout.files, commit, overlay.files)
        environment = checkout_environment(job.policy.environment, checkout.home)
        limits = Limits(seconds=job.policy.command_seconds, megabytes=job.policy.command_megabytes)
        for_setup, for_criteria = await _sandboxes(mirror, checkout, job.policy)
        if overlay.is_secret:
            for_setup = for_criteria
        prepared = CheckoutWithSetup(checkout, limits, environment, for_setup)
        setup, failed_setup = await _set_up(prepared, mirror, job)
        if overlay.after_setup:
            await lay_over(checkout.files, overlay.files)
        yield prepared._replace(sandbox=for_criteria, setup=setup, failed_setup=failed_setup)


async def _set_up(
    prepared: CheckoutWithSetup, mirror: Mirror, job: VerificationJob
) -> tuple[list[CheckOutcome], str | None]:
    """The results of the setup, and what failed, if something did."""
    if not job.policy.setup:
        return [], None
    index = await keep_index(prepared.files)
    setup: list[CheckOutcome] = []
    failed_setup: str | None = None
    for text in job.policy.setup:
        if failed_setup is not None:
            setup.append(unverifiable("setup", skipped_by(failed_setup), text))
            continue
        setup.append(await _run_setup(prepared, text))
        if not setup[-1].holds and not is_waived(job.waivers, "setup", [text]):
            failed_setup = text
    if failed_setup is not None:
        return setup, failed_setup
    altered = await _check_unaltered(mirror, prepared.checkout, index, job)
    return [*setup, *altered], ALTERED if any(not check.holds for check in altered) else None


async def _check_unaltered(
    mirror: Mirror, checkout: Checkout, index: KeptIndex, job: VerificationJob
) -> list[CheckOutcome]:
    """The check that fails if the checkout is not what was committed any more. Nothing is reported
    if it is, because no command of the contract asked for it."""
    try:
        changes = await compare(checkout.files, index, _CONFIG, mirror)
        violations = setup_violations(changes, job.policy.generated)
    except (EvidenceUnavailable, OSError) as error:  # files that cannot be read any more
        violations = [Violation(check="setup", message=str(error), hint=_HINT)]
    if not violations:
        return []
    outcome = passed_unless_violated("setup", violations, "")
    named = outcome.result.model_copy(update={"subject": ALTERED})
    return [with_waivers(outcome._replace(result=named), job.waivers)]


async def _sandboxes(
    mirror: Mirror, checkout: Checkout, policy: VerificationPolicy
) -> tuple[CommandSandbox, CommandSandbox]:
    """Those of the setup commands and of the criteria, which may differ in their network."""
    if policy.sandbox == "off":
        off = CommandSandbox("none: switched off by the policy")
        return off, off
    backend = await find_backend()
    if policy.sandbox == "required" and backend.name is None:
        reason = f"the policy requires a sandbox, and there is none here: {backend.reason}"
        missing = CommandSandbox(f"none: {backend.reason}", refusal=reason)
        return missing, missing
    return await asyncio.to_thread(_contain, backend, mirror, checkout, policy.network)


def _contain(
    backend: Backend, mirror: Mirror, checkout: Checkout, network: str
) -> tuple[CommandSandbox, CommandSandbox]:
    containment = Containment(
        writable=[checkout.files, checkout.home],
        temporary=checkout.temporary,
        hidden=[*mirror.hidden, checkout.folder.parent],
        readable=[mirror.path / "objects"],
    )
    return (
        contain(backend, containment._replace(network=network != "none")),
        contain(backend, containment._replace(network=network == "all")),
    )


def skipped_by(failed_setup: str) -> str:
    return f"not run, the setup failed: {failed_setup}"


def checked_command(
    check: CheckName, text: str, result: CommandResult, problem: str | None
) -> CheckOutcome:
    """`problem` is why the command counts as failed, if it does."""
    check_result = CheckResult(
        check=check,
        outcome="passed" if problem is None else "failed",
        message=result.message if problem is None else problem,
        subject=text,
        exit_code=result.exit_code,
        output_tail=result.output_tail,
        duration_ms=result.duration_ms,
        sandbox=result.sandbox,
    )
    if problem is None:
        return CheckOutcome(check_result)
    violation = _violation(check, text, problem, failure_hint(check, result))
    return CheckOutcome(check_result, [violation], result.missing)


def failure_hint(check: CheckName, result: CommandResult) -> str:
    if result.sandbox_is_missing:
        return _SANDBOX_HINT
    may_be_sandbox = result.is_contained and looks_contained(result.output_tail)
    return _CONTAINED_HINT if may_be_sandbox and check != "setup" else _HINT


def unrunnable_command(check: CheckName, text: str, reason: str) -> CheckOutcome:
    """A command that cannot be run as it is written."""
    result = CheckResult(check=check, outcome="failed", message=reason, subject=text)
    return CheckOutcome(result, [_violation(check, text, reason)])


async def _run_setup(checkout: CheckoutWithSetup, text: str) -> CheckOutcome:
    """A setup command has no label, such as the `Tests pass:` of a criterion."""
    try:
        argv = parse_command(text)
    except ValueError as error:
        return unrunnable_command("setup", text, str(error))
    result = await checkout.run(argv)
    return checked_command("setup", text, result, None if result.exit_code == 0 else result.message)


def _violation(check: CheckName, text: str, reason: str, hint: str = _HINT) -> Violation:
    return Violation(check=check, message=f"{text}: {reason}", hint=hint)
