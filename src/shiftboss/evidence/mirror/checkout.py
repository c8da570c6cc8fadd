"""Clean checkouts: the files of one commit and nothing else, with or without the setup commands."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from shiftboss.evidence.commands.command import Limits, checkout_environment, run_command
from shiftboss.evidence.mirror.mirror import Mirror
from shiftboss.protocol.verdicts import CheckName, CheckResult, VerificationJob, Violation
from shiftboss.rules.claims.criteria import CommandResult, parse_command
from shiftboss.rules.claims.verdicts import CheckOutcome, is_waived, unverifiable
from shiftboss.system.background_delete import BackgroundDelete
from shiftboss.system.git import checked, git

CHECKOUT_SECONDS: Final = 300.0

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


class Checkout(NamedTuple):
    """`home` is an empty folder beside the files: the home folder of commands."""

    folder: Path

    @property
    def files(self) -> Path:
        return self.folder / "files"

    @property
    def home(self) -> Path:
        return self.folder / "home"


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


class CheckoutWithSetup(NamedTuple):
    """A checkout in which the setup commands of the policy were run.

    `setup` are their results, `failed_setup` is the first that failed, if one did.
    """

    checkout: Checkout
    limits: Limits
    environment: Mapping[str, str]
    setup: Sequence[CheckOutcome] = ()
    failed_setup: str | None = None

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
        return await run_command(argv, self.checkout.files, limits, variables)


@asynccontextmanager
async def checkout_with_setup(
    mirror: Mirror,
    commit: str,
    job: VerificationJob,
    deletion: BackgroundDelete,
    overlay: Mapping[str, bytes | None] = MappingProxyType({}),
) -> AsyncIterator[CheckoutWithSetup]:
    """`overlay` has files that are written over those of the commit, after the setup."""
    async with clean_checkout(mirror, commit, deletion) as checkout:
        environment = checkout_environment(job.policy.environment, checkout.home)
        limits = Limits(seconds=job.policy.command_seconds, megabytes=job.policy.command_megabytes)
        prepared = CheckoutWithSetup(checkout, limits, environment)
        setup: list[CheckOutcome] = []
        failed_setup: str | None = None
        for text in job.policy.setup:
            if failed_setup is not None:
                setup.append(unverifiable("setup", skipped_by(failed_setup), text))
                continue
            setup.append(await _run_setup(prepared, text))
            if not setup[-1].holds and not is_waived(job.waivers, "setup", [text]):
                failed_setup = text
        if overlay:
            await asyncio.to_thread(write_overlay, checkout.files, overlay)
        yield prepared._replace(setup=setup, failed_setup=failed_setup)


def write_overlay(folder: Path, overlay: Mapping[str, bytes | None]) -> None:
    """Write the files, or delete those that are None. The commit may have links in the place of
    folders: they are replaced, so that nothing outside of the folder is written."""
    for name, content in overlay.items():
        file = folder
        for part in name.split("/")[:-1]:
            file /= part
            if file.is_symlink() or not file.is_dir():
                file.unlink(missing_ok=True)
                file.mkdir()
        file /= name.rsplit("/", 1)[-1]
        mode = file.stat(follow_symlinks=False).st_mode if os.path.lexists(file) else 0o644
        if content is None or not stat.S_ISREG(mode):
            shutil.rmtree(file) if stat.S_ISDIR(mode) else file.unlink(missing_ok=True)
        if content is not None:
            file.write_bytes(content)


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
    )
    return CheckOutcome(check_result, [] if problem is None else [_violation(check, text, problem)])


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


def _violation(check: CheckName, text: str, reason: str) -> Violation:
    return Violation(
        check=check,
        message=f"{text}: {reason}",
        hint="run it in a fresh clone of the commit; the check has the end of its output",
    )
