"""A git repository of the user: refs, history, merges, checkouts."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from shiftboss.errors import TreeUnavailable, UnknownRepo
from shiftboss.evidence.mirror.squashes import MERGE_SETTINGS, SquashHistory
from shiftboss.orchestrator.git.checkouts import (
    GitCheckout,
    GitFolderState,
    git_folder_state,
    list_checkouts,
    main_folder,
    submodule_folder,
)
from shiftboss.orchestrator.git.runner import LOCK_SECONDS, checked, refuse_locked, run_git
from shiftboss.rules.claims.claims import is_object_name
from shiftboss.system.git import GitOutput

FALLBACK_NAME: Final = "Shiftboss"
FALLBACK_EMAIL: Final = "shiftboss@localhost"
_USAGE_CODE: Final = 129
# Clean-up does not wait long for a lock: it can be done later.
_CLEAN_UP_SECONDS: Final = 1.0
# The branch in the file HEAD of a repository whose refs are in another format (reftable).
_NOT_IN_HEAD: Final = ".invalid"


class Merged(NamedTuple):
    """`paths` are those in conflict. If there are any, `tree` is useless."""

    tree: str
    paths: list[str]


@dataclass(frozen=True, slots=True)
class GitRepo:
    """`common` is the git folder that all its work trees share. `main` is the folder of the main
    checkout, if it is known."""

    common: Path
    main: Path | None = None

    @classmethod
    async def at(cls, folder: Path) -> GitRepo:
        """Raises UnknownRepo. Git is asked again only if the git folder is another one, or its
        settings have changed."""
        state = await asyncio.to_thread(git_folder_state, folder)
        known = _known.get(folder)
        if known is not None and state is not None and known[0] == state:
            return known[1]
        repo = await cls._ask(folder)
        if state is not None:
            _known[folder] = state, repo
        return repo

    @classmethod
    async def _ask(cls, folder: Path) -> GitRepo:
        if not await asyncio.to_thread(folder.is_dir):
            raise UnknownRepo(f"there is no folder {folder}", field="repo")
        output = await run_git(
            ["rev-parse", "--path-format=absolute", "--git-common-dir"],
            folder,
            environment={"GIT_WORK_TREE": str(folder)},
        )
        if output.code != 0:
            raise UnknownRepo(
                f"{folder} is not a git repository: {output.first_error}",
                field="repo",
                hint="create one there: git init, and a first commit",
            )
        common = Path(await asyncio.to_thread(os.path.realpath, checked(output, "the folder")))
        inside = Path(await asyncio.to_thread(os.path.realpath, folder))
        return cls(common, await asyncio.to_thread(main_folder, common, inside))

    async def run(
        self,
        arguments: Sequence[str],
        *,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        lock_seconds: float = LOCK_SECONDS,
    ) -> GitOutput:
        """Run git without a work tree: a setting of the repository could point to another one."""
        folder = str(self.common)
        variables = {"GIT_DIR": folder, "GIT_WORK_TREE": folder, **(environment or {})}
        return await run_git(
            arguments, self.common, stdin=stdin, environment=variables, lock_seconds=lock_seconds
        )

    async def text(self, what: str, *arguments: str) -> str:
        return checked(await self.run(arguments), what)

    async def commit_of(self, name: str) -> str | None:
        """The commit of a revision, or None."""
        output = await self.run(
            ["rev-parse", "--quiet", "--verify", "--end-of-options", f"{name}^{{commit}}"]
        )
        commit = output.out.decode().strip()
        # An exclusion (`^main`) is a revision to git, and its name is no commit's.
        return commit if output.code == 0 and is_object_name(commit) else None

    async def commits_of(self, *names: str) -> list[str | None]:
        """The commit of each revision, or None, from one git process."""
        lines = "".join(f"{name}^{{commit}}\n" for name in names).encode(errors="surrogateescape")
        output = await self.run(["cat-file", "--batch-check=%(objectname)"], stdin=lines)
        answers = output.out.decode(errors="replace").splitlines()
        if output.code != 0 or len(answers) != len(names):
            return [None for _ in names]
        # Of others, git repeats the name and says "missing" or "ambiguous".
        return [None if " " in answer else answer for answer in answers]

    async def branch_tip(self, branch: str) -> str | None:
        return await self.commit_of(f"refs/heads/{branch}")

    async def is_ancestor(self, older: str, newer: str) -> bool:
        """Whether `older` is in the history of `newer`. Both are ids of commits."""
        if older == newer:
            return True
        output = await self.run(["merge-base", "--is-ancestor", older, newer])
        if output.code not in (0, 1):
            raise TreeUnavailable(
                f"cannot read the history of {newer} in {self.common}: {output.first_error}"
            )
        return output.code == 0

    async def tree_of(self, commit: str) -> str:
        return await self.text(f"the files of {commit}", "rev-parse", f"{commit}^{{tree}}")

    async def move_ref(self, ref: str, new: str, old: str | None, why: str) -> bool:
        """Move a ref from `old`, or create it if `old` is None. Returns False if it is not at
        `old`. Symbolic refs are followed for branches, because a user may have made them; private
        refs are never symbolic."""
        options = [] if ref.startswith("refs/heads/") else ["--no-deref"]
        output = await self.run(["update-ref", *options, "-m", why, ref, new, old or ""])
        refuse_locked(output, f"moving {ref}")
        return output.code == 0

    async def delete_ref(self, ref: str, old: str) -> bool:
        output = await self.run(
            ["update-ref", "--no-deref", "-d", ref, old], lock_seconds=_CLEAN_UP_SECONDS
        )
        return output.code == 0

    async def symbolic_target(self, branch: str) -> str | None:
        """The ref that a branch is a symbolic ref to. None if it is an ordinary branch."""
        output = await self.run(["symbolic-ref", "--quiet", f"refs/heads/{branch}"])
        return output.out.decode(errors="replace").strip() if output.code == 0 else None

    async def set_private_ref(self, ref: str, commit: str) -> None:
        """Keep a commit alive that is on no branch."""
        await self.text(f"keeping {commit}", "update-ref", "--no-deref", ref, commit)

    async def delete_private_ref(self, ref: str) -> None:
        output = await self.run(
            ["update-ref", "--no-deref", "-d", ref], lock_seconds=_CLEAN_UP_SECONDS
        )
        checked(output, f"deleting {ref}")

    async def merge(self, ours: str, theirs: str) -> Merged:
        """Merge two commits without a work tree."""
        output = await self.run(
            [
                *(*MERGE_SETTINGS, "merge-tree", "--write-tree", "-z", "--name-only"),
                *("--no-messages", ours, theirs),
            ]
        )
        if output.code == _USAGE_CODE:
            raise TreeUnavailable(
                "this git cannot merge without a work tree", hint="install git 2.38 or newer"
            )
        if output.code not in (0, 1):
            raise TreeUnavailable(f"merging {theirs} into {ours}: {output.first_error}")
        tree, *paths = output.out.decode(errors="surrogateescape").split("\0")
        return Merged(tree, list(dict.fromkeys(path for path in paths if path)))

    async def is_merge_of(self, commit: str, tree: str, parents: Sequence[str]) -> bool:
        """Whether a commit has exactly this tree and these parents."""
        output = await self.text(commit, "rev-parse", f"{commit}^{{tree}}", f"{commit}^@")
        return output.split() == [tree, *parents]

    async def checkouts_by_branch(self) -> dict[str, GitCheckout]:
        """The checkout of every branch that is checked out. A bare repository has no main one."""
        main = self.main or await self._default_main()
        if main is not None and await self._is_bare(main):
            main = None
        checkouts = await asyncio.to_thread(lambda: list(list_checkouts(self.common, main)))
        return {await self._branch_at(checkout, name): checkout for name, checkout in checkouts}

    async def _branch_at(self, checkout: GitCheckout, name: str) -> str:
        if name != _NOT_IN_HEAD:
            return name
        output = await self.run(
            ["symbolic-ref", "--quiet", "HEAD"], environment={"GIT_DIR": str(checkout.admin)}
        )
        return output.out.decode(errors="replace").strip().removeprefix("refs/heads/")

    async def _is_bare(self, main: Path) -> bool:
        """`core.bare` counts only if no file of the repository is in `main`: agents can write the
        setting, and a user may have turned a repository with files into a bare one."""
        output = await self.run(["config", "--type=bool", "--get", "core.bare"])
        if output.out.strip() != b"true":
            return False
        names = (await self.run(["ls-tree", "-z", "--name-only", "HEAD"])).out.split(b"\0")
        paths = [main / os.fsdecode(name) for name in names if name]
        return not await asyncio.to_thread(lambda: any(map(os.path.lexists, paths)))

    async def _default_main(self) -> Path | None:
        if self.common.name == ".git":
            return self.common.parent
        output = await self.run(["config", "--get", "core.worktree"])
        setting = output.out.decode(errors="surrogateescape").strip()
        return await asyncio.to_thread(submodule_folder, self.common, setting)

    async def commit_tree(
        self, tree: str, parents: Sequence[str], message: str, *, date: str | None = None
    ) -> str:
        """With a fixed date, the same arguments give the same commit."""
        arguments = ["commit-tree", tree]
        for parent in parents:
            arguments += ["-p", parent]
        variables = await self._identity()
        if date is not None:
            variables |= {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
        output = await self.run(
            arguments, stdin=message.encode(errors="replace"), environment=variables
        )
        return checked(output, "creating a commit")

    async def committer(self) -> str:
        """Name, address and time, as git writes them into a commit."""
        output = await self.run(["var", "GIT_COMMITTER_IDENT"], environment=await self._identity())
        return checked(output, "the identity of the committer")

    async def _identity(self) -> dict[str, str]:
        """Variables for an identity, if the user has configured none. Git would derive one from
        the host name."""
        output = await self.run(["config", "-z", "--get-regexp", r"^user\.(name|email)$"])
        entries = [entry.partition(b"\n") for entry in output.out.split(b"\0") if entry]
        # The last value counts, also an empty one.
        settings = {name: value.strip() for name, _, value in entries}
        if settings.get(b"user.email") and settings.get(b"user.name"):
            return {}
        return {
            name: os.environ.get(name) or fallback
            for name, fallback in (
                ("GIT_AUTHOR_NAME", FALLBACK_NAME),
                ("GIT_AUTHOR_EMAIL", FALLBACK_EMAIL),
                ("GIT_COMMITTER_NAME", FALLBACK_NAME),
                ("GIT_COMMITTER_EMAIL", FALLBACK_EMAIL),
            )
        }


# A plan has few repositories, and asks for each of them many times.
_known: dict[Path, tuple[GitFolderState, GitRepo]] = {}


async def find_squash(repo: GitRepo, tip: str, work: str, accepted: Sequence[str]) -> str | None:
    """The squash on the branch that contains the work: of the work itself, or of one of the
    accepted commits that have merged it."""
    return await SquashHistory(repo.run).find(tip, work, [work, *accepted])


async def merge_onto(repo: GitRepo, tip: str, work: str) -> Merged:
    """Merge the work into the tip, which may have work as squashes that this was built on."""
    return await repo.merge(await SquashHistory(repo.run).joined(tip, work), work)
