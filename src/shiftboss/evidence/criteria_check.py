"""The commands of a contract, each run in a clean checkout of the claimed commit."""

from __future__ import annotations

from collections.abc import Sequence

from shiftboss.evidence.base_runs import BaseRuns
from shiftboss.evidence.commit_checks import Claim
from shiftboss.evidence.mirror import Mirror
from shiftboss.evidence.prepared import left_out, not_possible, prepared, result_of
from shiftboss.protocol.verdicts import VerificationJob
from shiftboss.rules.claims.criteria import CheckableCriterion, objection, parse_criterion
from shiftboss.rules.claims.verdicts import Checked, not_made
from shiftboss.system.background_delete import Disposal

FREE_TEXT = "no command can check it"


def not_run(job: VerificationJob, reason: str) -> list[Checked]:
    """All of them, with the reason why nobody looked."""
    return [
        *(not_made("setup", reason, one) for one in job.policy.setup),
        *(not_made("criterion", reason, one) for one in job.contract.success_criteria),
    ]


class CriteriaCheck:
    """Of one claim. Each command has a checkout of its own: what runs for one of them could change
    the script of the next."""

    def __init__(
        self,
        mirror: Mirror,
        claim: Claim,
        job: VerificationJob,
        disposal: Disposal,
        base_runs: BaseRuns,
    ) -> None:
        assert claim.commit is not None
        assert claim.base is not None
        self._mirror = mirror
        self._commit = claim.commit
        self._base = claim.base
        self._job = job
        self._disposal = disposal
        self._base_runs = base_runs
        # Of the first checkout, and the command of it that failed.
        self._setup: Sequence[Checked] | None = None
        self._broken: str | None = None

    async def make(self) -> list[Checked]:
        """First what prepares the checkout, then the criteria, in the order of the contract."""
        criteria = [await self._criterion(text) for text in self._job.contract.success_criteria]
        if self._setup is None and self._job.policy.setup:
            async with prepared(self._mirror, self._commit, self._job, self._disposal) as place:
                self._setup = place.setup
        return [*(self._setup or ()), *criteria]

    async def _criterion(self, text: str) -> Checked:
        if self._broken is not None:
            return not_made("criterion", left_out(self._broken), text)
        try:
            criterion = parse_criterion(text)
        except ValueError as error:
            return not_possible("criterion", text, str(error))
        if criterion is None:
            return not_made("criterion", FREE_TEXT, text)
        return await self._run(text, criterion)

    async def _run(self, text: str, criterion: CheckableCriterion) -> Checked:
        async with prepared(self._mirror, self._commit, self._job, self._disposal) as place:
            if place.broken is not None:
                return self._unprepared(text, place.setup, place.broken)
            self._setup = self._setup or place.setup
            done = await place.run(criterion.argv)
        problem = objection(criterion, done)
        if problem is None and criterion.kind == "tests":
            ran = await self._base_runs.ran(self._mirror, self._base, criterion.argv, self._job)
            problem = objection(criterion, done, ran)
        return result_of("criterion", text, done, problem)

    def _unprepared(self, text: str, setup: Sequence[Checked], broken: str) -> Checked:
        """The setup is what fails; if it worked before, it is the criterion that cannot be run."""
        if self._setup is not None:
            return not_possible("criterion", text, left_out(broken))
        self._setup, self._broken = setup, broken
        return not_made("criterion", left_out(broken), text)
