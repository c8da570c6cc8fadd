"""The check "scope": the changes of a task's commits must be within its contract.

Changes that came with a merge of the target branch are not the task's, if a receipt or the spawn of
the task accounts for them.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

from shiftboss.evidence.checks.commit import ClaimedCommit, tip_of
from shiftboss.evidence.mirror.changes import changes_of, net_change, plain_change
from shiftboss.evidence.mirror.mirror import Mirror
from shiftboss.evidence.mirror.squashes import SquashHistory
from shiftboss.protocol.claims.verdicts import VerificationJob
from shiftboss.rules.claims.verdicts import (
    CheckOutcome,
    failed,
    is_waived,
    passed,
    passed_unless_violated,
)
from shiftboss.rules.paths.changes import SYMLINK, CommitChange, FileChange, NetChange
from shiftboss.rules.paths.declared_dependencies import (
    NONE_USED,
    ThirdParty,
    declared_modules,
    describes_imports,
    imported_names,
    is_test_code,
    searched_folders,
    third_party_modules,
)
from shiftboss.rules.paths.ownership import Ownership, module_of
from shiftboss.rules.paths.scope import LINK_BYTES_MAX, CommittedWork, TargetGuard, violations_of
from shiftboss.rules.paths.shadowing import Shadowing, as_modules, included_patterns, is_makefile

# How many commits with a receipt are compared with the changes of the target. There are as many as
# tasks that landed side by side.
TIPS_MAX: Final = 50
MAKEFILES_MAX: Final = 50
MAKEFILE_BYTES_MAX: Final = 256 * 1024
INCLUDE_DEPTH: Final = 4
DEPENDENCY_FILES_MAX: Final = 50
DEPENDENCY_BYTES_MAX: Final = 4 * 1024 * 1024
TEST_FILES_MAX: Final = 2000
TEST_BYTES_MAX: Final = 256 * 1024
_FULL_ID: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class CommitRange(NamedTuple):
    """The commits between the base and the claimed commit, and whose they are.

    `start` is the commit that the result is compared with: the base, or the newest commit of the
    target that was merged. `own` are the commits of the task, the oldest first; `merged` those of
    them that a merge brought. `from_target` are the other commits, the newest first.
    """

    start: str
    own: list[str]
    merged: frozenset[str]
    from_target: list[str]
    parents: dict[str, list[str]]


async def commit_range(mirror: Mirror, claim: ClaimedCommit, target: str | None) -> CommitRange:
    """`target` is the tip of the target branch, if there is one."""
    commit, base = claim.commit, claim.base
    assert commit is not None
    assert base is not None
    parents = await _with_parents(mirror, commit, base)
    outside = frozenset(parents if target == base else ())
    if target is not None and target != base:
        outside = await _outside_of_target(mirror, commit, base, target)
    if not outside:
        # There is no target, or the target has all of these commits. Then all of them count as the
        # task's: a worker that can move the target could hide everything there.
        return CommitRange(base, list(parents), _merged(parents, commit), [], parents)
    from_target = [sha for sha in reversed(parents) if sha not in outside]
    own = [sha for sha in parents if sha in outside]
    start = base
    if from_target:
        assert target is not None
        merge_base = await _merge_base(mirror, target, commit)
        if merge_base is not None and await mirror.is_ancestor(base, merge_base):
            start = merge_base
    merged = _merged({sha: parents[sha] for sha in own}, commit)
    return CommitRange(start, own, merged, from_target, parents)


async def unaccounted_changes(
    mirror: Mirror, claim: ClaimedCommit, job: VerificationJob, commits: CommitRange
) -> list[CommitChange]:
    """The changes of target commits that were not there at spawn and have no receipt.

    These are the changes of each such commit, and the files of the merged state that neither the
    base nor any accounted commit has: a merge can take either side and shows no change of its own.
    """
    assert claim.base is not None
    unaccounted, squashed = await _unaccounted(mirror, claim, job, commits)
    if not unaccounted:
        return []
    changes = await changes_of(
        mirror, [sha for sha in reversed(commits.from_target) if sha in unaccounted]
    )
    if commits.start == claim.base:
        return changes
    # The files of a squash include what was on the target before: only its work explains a file.
    accounted = [sha for sha in commits.from_target if sha not in {*unaccounted, *squashed}]
    tips = [*_tips(accounted, commits.parents), *squashed.values()]
    explained = await _file_states(mirror, claim.base, tips[:TIPS_MAX])
    return changes + [
        CommitChange(commits.start, True, file)
        for file in await plain_change(mirror, claim.base, commits.start)
        if (file.path, file.new_mode, file.blob) not in explained
    ]


async def check_target(
    mirror: Mirror, claim: ClaimedCommit, commits: CommitRange, target: str | None
) -> CheckOutcome:
    """The commits that counted as the target's must still be there after the verification."""
    assert claim.commit is not None
    gone = commits.from_target
    tip = await tip_of(mirror, target) if gone else None
    if tip is not None:
        outside = await _outside_of(mirror, claim.commit, [claim.base, tip])
        gone = [sha for sha in gone if sha in outside]
    if not gone:
        return passed("branch", f"{target} has the merged commits")
    return failed(
        "branch",
        f"{target} no longer has the commit {gone[0][:12]}: it was moved after the claim",
        f"do not move {target} before the verdict, and claim again",
        gone[0],
    )


async def _unaccounted(
    mirror: Mirror, claim: ClaimedCommit, job: VerificationJob, commits: CommitRange
) -> tuple[frozenset[str], dict[str, str]]:
    """The target's commits without a receipt, and its squashes of work with one."""
    commit = claim.commit
    assert commit is not None
    listed = [sha for sha in (job.target_base, *job.accounted_commits) if sha is not None]
    listed = [sha for sha in dict.fromkeys(listed) if _FULL_ID.fullmatch(sha)]
    objects = await mirror.look_up(listed) if listed else []
    accounted = [
        resolved.id for resolved in objects if resolved is not None and resolved.kind == "commit"
    ]
    outside = await _outside_of(mirror, commit, [claim.base, *accounted])
    if commit not in outside:
        # The claimed commit has a receipt itself, or is an ancestor of a commit with one. That
        # accounts for nothing in the target.
        earlier = [sha for sha in accounted if sha in commits.parents and sha != commit]
        outside = await _outside_of(mirror, commit, [claim.base, *earlier])
    candidates = [sha for sha in commits.from_target if sha in outside]
    squashed = await SquashHistory(mirror.run).genuine(candidates, accounted) if accounted else {}
    return frozenset(candidates).difference(squashed), squashed


async def _with_parents(mirror: Mirror, commit: str, base: str) -> dict[str, list[str]]:
    """The parents of each commit that the base does not have, the oldest commit first."""
    known = await mirror.commits_since(base, commit)
    if known is not None and all(len(parents) == 1 for parents in known.values()):
        return dict(reversed(known.items()))
    lines = await mirror.output(
        "the commits", "rev-list", "--topo-order", "--reverse", "--parents", commit, f"^{base}"
    )
    return {sha: rest for sha, *rest in (line.split() for line in lines.decode().splitlines())}


async def _outside_of_target(mirror: Mirror, commit: str, base: str, target: str) -> frozenset[str]:
    """The commits that neither the base nor the target has."""
    since_base = await mirror.commits_since(base, commit)
    of_target = await mirror.commits_since(base, target) if since_base is not None else None
    if since_base is None or of_target is None:
        return await _outside_of(mirror, commit, [base, target])
    return frozenset(since_base.keys() - of_target.keys())


async def _outside_of(mirror: Mirror, commit: str, others: Iterable[str | None]) -> frozenset[str]:
    """The commits in the history of `commit` that none of the others has."""
    excluded = [f"^{sha}" for sha in others if sha is not None]
    lines = "".join(f"{revision}\n" for revision in (commit, *excluded)).encode()
    listed = await mirror.output("the commits", "rev-list", "--stdin", stdin=lines)
    return frozenset(listed.decode().split())


async def _merge_base(mirror: Mirror, target: str, commit: str) -> str | None:
    """None: they have no history in common."""
    output = await mirror.run(["merge-base", target, commit])
    return output.out.decode().strip() or None


async def _file_states(
    mirror: Mirror, base: str, commits: Iterable[str]
) -> set[tuple[str, str, str]]:
    """The paths in which the commits differ from the base, each with its mode and blob."""
    return {
        (file.path, file.new_mode, file.blob)
        for commit in commits
        for file in await plain_change(mirror, base, commit)
    }


def _tips(commits: Sequence[str], parents: dict[str, list[str]]) -> list[str]:
    """The commits that are not a parent of another one."""
    inner = {parent for sha in commits for parent in parents[sha]}
    return [sha for sha in commits if sha not in inner]


def _merged(parents: dict[str, list[str]], commit: str) -> frozenset[str]:
    """The commits that are not first parents, and so came with a merge."""
    merged = set(parents)
    sha = commit
    while sha in parents:
        merged.discard(sha)
        sha = next(iter(parents[sha]), "")
    return frozenset(merged)


class ClaimedWork(NamedTuple):
    """The changes of the task. `target` is the tip of the target branch. `unaccounted` are changes
    that came with a merge of it and have no receipt; `base_names` is empty unless there are any.
    `includes` maps what Makefiles include to the Makefile. `third_party` has the modules
    from elsewhere that unowned tests import and a new file has the name of.
    """

    commits: CommitRange
    net: NetChange
    work: CommittedWork
    target: str | None
    unaccounted: list[CommitChange]
    base_names: frozenset[str]
    includes: dict[str, str]
    third_party: ThirdParty


async def read_work(mirror: Mirror, claim: ClaimedCommit, job: VerificationJob) -> ClaimedWork:
    assert claim.commit is not None
    assert claim.base is not None
    names = await _names(mirror, claim.commit)
    target = claim.target if job.target != job.branch else None
    commits = await commit_range(mirror, claim, target)
    net = await net_change(mirror, commits.start, claim.commit)
    own = await _own_changes(mirror, commits, net, claim.commit)
    unaccounted: list[CommitChange] = []
    if commits.from_target:
        unaccounted = await unaccounted_changes(mirror, claim, job, commits)
    from_base = net.files if commits.start == claim.base else None
    names_of_base = partial(_names_of_base, mirror, claim.base, names, from_base)
    base_names = await names_of_base() if unaccounted else []
    merged = commits.merged if target is None else frozenset[str]()
    work = CommittedWork(net.files, own, await _links(mirror, net.files), names, merged)
    includes = await _make_includes(mirror, claim.commit, names)
    changed = [*net.files, *(change.file for change in unaccounted)]
    third_party = await _third_party(mirror, claim.base, job, changed, names_of_base)
    return ClaimedWork(
        commits, net, work, target, unaccounted, frozenset(base_names), includes, third_party
    )


async def _own_changes(
    mirror: Mirror, commits: CommitRange, net: NetChange, commit: str
) -> list[CommitChange]:
    """Those of each commit. Of a single one, they are the net change, unless that has a rename."""
    is_single = commits.own == [commit] and commits.parents[commit] == [commits.start]
    if is_single and not any(file.status == "R" for file in net.files):
        return [CommitChange(commit, False, file) for file in net.files]
    return await changes_of(mirror, commits.own)


async def check_scope(work: ClaimedWork, job: VerificationJob) -> CheckOutcome:
    return await asyncio.to_thread(_check_scope, work, job)


def _check_scope(work: ClaimedWork, job: VerificationJob) -> CheckOutcome:
    contract = job.contract
    ownership = _ownership(job)
    claimed = [path for path in job.files_touched if not is_waived(job.waivers, "scope", [path])]
    shadowing = Shadowing(
        ownership,
        work.work.names,
        contract.success_criteria,
        job.policy.setup,
        work.includes,
        work.third_party,
    )
    violations = violations_of(work.work, ownership, claimed, shadowing)
    if work.unaccounted:
        assert job.target is not None
        guard = TargetGuard(job.contract, job.policy, work.base_names, shadowing)
        reported = {violation.path for violation in violations}
        brought = guard.violations(job.target, work.unaccounted)
        violations += [violation for violation in brought if violation.path not in reported]
    count = len(work.net.files)
    files = "1 file" if count == 1 else f"{count} files, all"
    return passed_unless_violated("scope", violations, f"{files} within the contract")


def _ownership(job: VerificationJob) -> Ownership:
    contract = job.contract
    return Ownership(contract.files_owned, contract.files_readonly, job.policy.generated)


async def _third_party(
    mirror: Mirror,
    base: str,
    job: VerificationJob,
    files: Sequence[FileChange],
    names_of_base: Callable[[], Awaitable[list[str]]],
) -> ThirdParty:
    """Judged by the base: a worker could remove a dependency or an import."""
    added = [path for file in files if file.status in "AR" for path in as_modules(file)]
    new = {module[-1] for path in added if (module := module_of(path))}
    if not new:
        return NONE_USED
    names = await names_of_base()
    describing = [name for name in names if describes_imports(name)][:DEPENDENCY_FILES_MAX]
    described = await _texts(mirror, base, describing, DEPENDENCY_BYTES_MAX)
    declared = await asyncio.to_thread(declared_modules, described)
    candidates = third_party_modules(new, declared, names)
    if not candidates:
        return NONE_USED
    ownership = _ownership(job)
    tests = [name for name in names if is_test_code(name) and ownership.refusal(name) is not None]
    texts = await _texts(mirror, base, tests[:TEST_FILES_MAX], TEST_BYTES_MAX)
    imported = await asyncio.to_thread(imported_names, texts.values(), candidates)
    return ThirdParty(imported, searched_folders(described))


async def _texts(
    mirror: Mirror, commit: str, names: Sequence[str], size_max: int
) -> dict[str, str]:
    if not names:
        return {}
    by_object = {f"{commit}:{name}": name for name in names}
    contents = await mirror.read(list(by_object), size_max)
    return {by_object[key]: text.decode(errors="replace") for key, text in contents.items()}


async def _links(mirror: Mirror, files: list[FileChange]) -> dict[str, bytes]:
    blobs = [file.blob for file in files if file.new_mode == SYMLINK]
    return await mirror.read(blobs, LINK_BYTES_MAX) if blobs else {}


async def _make_includes(mirror: Mirror, commit: str, names: Sequence[str]) -> dict[str, str]:
    """The files that the Makefiles of the commit include, directly or indirectly."""
    includes: dict[str, str] = {}
    makefiles = [name for name in names if is_makefile(name)][:MAKEFILES_MAX]
    for _ in range(INCLUDE_DEPTH):
        if not makefiles:
            break
        by_object = {f"{commit}:{name}": name for name in makefiles}
        new: dict[str, str] = {}
        for key, content in (await mirror.read(list(by_object), MAKEFILE_BYTES_MAX)).items():
            text = content.decode(errors="replace")
            new |= dict.fromkeys(included_patterns(by_object[key], text), by_object[key])
        new = {pattern: name for pattern, name in new.items() if pattern not in includes}
        includes |= new
        makefiles = [name for name in names if name in new][:MAKEFILES_MAX]
    return includes


async def _names_of_base(
    mirror: Mirror, base: str, names: Sequence[str], changes: Sequence[FileChange] | None
) -> list[str]:
    """`names` are those of the commit, and `changes` what it changed since the base, if known. They
    do not tell the place of a file that was removed or renamed: then git lists the base."""
    if changes is None or any(file.status not in "AMT" or not file.is_utf8 for file in changes):
        return await _names(mirror, base)
    new = {file.path for file in changes if file.status == "A"}
    return [name for name in names if name not in new]


async def _names(mirror: Mirror, commit: str) -> list[str]:
    """All files of the commit.

    A tree can be made that unfolds to billions of files. It is noticed here, because git prints a
    list bit by bit, unlike the result of other commands.
    """
    listed = await mirror.output("the files", "ls-tree", "-r", "-z", "--name-only", commit)
    return [raw.decode(errors="backslashreplace") for raw in listed.split(b"\0") if raw]
