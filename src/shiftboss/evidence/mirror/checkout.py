"""A fresh folder with the files of one commit, and nothing of the worker's."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

from shiftboss.evidence.commands.command import Limits, checkout_environment, run_command
from shiftboss.evidence.mirror.mirror import Mirror
from shiftboss.protocol.verdicts import CheckName, CheckResult, VerificationJob, Violation
from shiftboss.rules.claims.criteria import CommandResult, parse_command
from shiftboss.rules.claims.verdicts import Checked, is_waived, not_made
from shiftboss.system.background_delete import BackgroundDelete
from shiftboss.system.git import checked, git

CHECKOUT_SECONDS: Final = 300.0

# Attributes of the commit may name filters; without a configuration for them they do nothing.
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
    """`home` is an empty folder beside the files, for what commands keep outside of them."""

    folder: Path

    @property
    def files(self) -> Path:
        return self.folder / "files"

    @property
    def home(self) -> Path:
        return self.folder / "home"


@asynccontextmanager
async def clean_checkout(
    mirror: Mirror, commit: str, disposal: BackgroundDelete
) -> AsyncIterator[Checkout]:
    """The files of the commit, in a repository of their own with the commit as its HEAD.

    They lie in the folder of `disposal`, which has them removed afterwards.
    """
    checkout = Checkout(disposal.folder / uuid.uuid4().hex)
    try:
        await asyncio.to_thread(_prepare, checkout, mirror.path, commit)
        async with disposal.writing:
            await _write_files(checkout, commit)
        yield checkout
    finally:
        await disposal.discard(checkout.folder)


async def _write_files(checkout: Checkout, commit: str) -> None:
    said = await git(
        ["-c", "checkout.workers=1", "read-tree", "--reset", "-u", commit],
        checkout.files,
        seconds=CHECKOUT_SECONDS,
        environment={
            "GIT_DIR": str(checkout.files / ".git"),
            "GIT_WORK_TREE": str(checkout.files),
        },
    )
    checked(said, f"the checkout of {commit}")


def _prepare(checkout: Checkout, mirror: Path, commit: str) -> None:
    """The objects stay in the mirror; new ones are written here."""
    own = checkout.files / ".git"
    (own / "objects" / "info").mkdir(parents=True)
    (own / "refs" / "heads").mkdir(parents=True)
    (own / "objects" / "info" / "alternates").write_text(f"{mirror.resolve() / 'objects'}\n")
    (own / "config").write_text(_CONFIG)
    (own / "HEAD").write_text(f"{commit}\n")
    checkout.home.mkdir()


# A clean checkout in which the commands of the setup were run, for one criterion.
#
# What a command leaves behind, changed files of the checkout included, is not there for the next.


class CheckoutWithSetup(NamedTuple):
    """`broken` is the command of the setup that failed, if one did."""

    checkout: Checkout
    limits: Limits
    environment: Mapping[str, str]
    setup: Sequence[Checked] = ()
    broken: str | None = None

    async def run(self, argv: Sequence[str]) -> CommandResult:
        return await run_command(argv, self.checkout.files, self.limits, self.environment)


@asynccontextmanager
async def prepared(
    mirror: Mirror, commit: str, job: VerificationJob, disposal: BackgroundDelete
) -> AsyncIterator[CheckoutWithSetup]:
    async with clean_checkout(mirror, commit, disposal) as checkout:
        environment = checkout_environment(job.policy.environment, checkout.home)
        limits = Limits(seconds=job.policy.command_seconds, megabytes=job.policy.command_megabytes)
        place = CheckoutWithSetup(checkout, limits, environment)
        setup: list[Checked] = []
        broken: str | None = None
        for text in job.policy.setup:
            if broken is not None:
                setup.append(not_made("setup", left_out(broken), text))
                continue
            setup.append(await _set_up(place, text))
            if not setup[-1].holds and not is_waived(job.waivers, "setup", [text]):
                broken = text
        yield place._replace(setup=setup, broken=broken)


def left_out(broken: str) -> str:
    return f"not run, the setup failed: {broken}"


def result_of(check: CheckName, text: str, done: CommandResult, problem: str | None) -> Checked:
    """`problem` is why it counts as failed, if it does."""
    result = CheckResult(
        check=check,
        outcome="passed" if problem is None else "failed",
        message=done.message if problem is None else problem,
        subject=text,
        exit_code=done.exit_code,
        output_tail=done.output_tail,
        duration_ms=done.duration_ms,
    )
    return Checked(result, [] if problem is None else [_violation(check, text, problem)])


def not_possible(check: CheckName, text: str, reason: str) -> Checked:
    """A command that failed before it was run."""
    result = CheckResult(check=check, outcome="failed", message=reason, subject=text)
    return Checked(result, [_violation(check, text, reason)])


async def _set_up(place: CheckoutWithSetup, text: str) -> Checked:
    """A command of the setup is written without the words before a criterion's."""
    try:
        argv = parse_command(text)
    except ValueError as error:
        return not_possible("setup", text, str(error))
    done = await place.run(argv)
    return result_of("setup", text, done, None if done.exit_code == 0 else done.message)


def _violation(check: CheckName, text: str, reason: str) -> Violation:
    return Violation(
        check=check,
        message=f"{text}: {reason}",
        hint="run it in a fresh clone of the commit; the end of its output is with the check",
    )
