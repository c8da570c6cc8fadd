"""The policy as the use cases need it."""

from __future__ import annotations

from shiftboss.errors import InvalidRequest, UnknownRepo
from shiftboss.protocol.ci import CiDemand, CiDependency
from shiftboss.protocol.handoff_requests import SpawnSubtaskRequest
from shiftboss.protocol.policy import Policy, RepoPolicy
from shiftboss.rules.contract.repo_graph import RepoGraph
from shiftboss.rules.paths.branch_names import task_branch


class ActivePolicy:
    def __init__(self, settings: Policy) -> None:
        self.settings = settings
        self.graph = RepoGraph({name: repo.depends_on for name, repo in settings.repos.items()})
        # Of a repository and of a bare one: the folder that all its work trees share.
        self._by_folder = {
            folder: name
            for name, repo in settings.repos.items()
            if repo.path is not None
            for folder in (f"{repo.path}/.git", repo.path)
        }

    def __contains__(self, repo: str | None) -> bool:
        return repo in self.settings.repos

    def repo(self, name: str) -> RepoPolicy:
        try:
            return self.settings.repos[name]
        except KeyError:
            raise UnknownRepo(
                f"There is no repo {name!r} in the policy",
                field="repo",
                hint="`shiftboss policy show` lists them",
            ) from None

    def name_of(self, repo: str | None, folder: str) -> str | None:
        """The repo that is meant, by its name or by where it lies: who names the path of a repo
        works on it all the same."""
        return repo if repo in self else self._by_folder.get(folder)

    def path_of(self, name: str) -> str:
        path = self.repo(name).path
        if path is None:
            raise UnknownRepo(
                f"{name} has no path in the policy, and its commits are looked at there",
                field="repo",
                hint=f"give repos.{name}.path in shiftboss.yaml",
            )
        return path

    def branch_for(self, name: str | None, request: SpawnSubtaskRequest) -> str | None:
        """Where the work on a repo of the policy is done: on its branch, or on the task's own if it
        is to land there. Another one would be proven beside it: CI of a branch that nobody builds
        upon says nothing about the repo."""
        if name is None:
            return None
        branch, own = self.repo(name).branch, task_branch(request.bead_id)
        if request.branch == own and request.target == branch:
            return own
        if request.branch not in (None, branch):
            raise InvalidRequest(
                f"branch: the work on {name} goes to {branch}, not to {request.branch}",
                field="branch",
                hint=f"leave it out; name {own}, with {branch} as its target; or change "
                f"repos.{name}.branch in the policy",
            )
        if request.target not in (None, branch):
            raise InvalidRequest(
                f"target: the work on {name} goes to {branch}, not to {request.target}",
                field="target",
                hint=f"leave it out, or change repos.{name}.branch in the policy",
            )
        return branch

    def demand(self, name: str, path: str, branch: str | None = None) -> CiDemand:
        """What CI has to say about a commit of the repo, on its branch or on another."""
        repo = self.repo(name)
        return CiDemand(
            repo=name,
            repo_path=path,
            branch=branch or repo.branch,
            policy=repo.ci,
            dependencies=self._dependencies(name) if repo.ci.provider == "local" else {},
        )

    def upstream(self, name: str) -> list[str]:
        """All that the repo is built on, directly or not."""
        return sorted(self.graph.chain_of(name) - self.graph.downstream_of(name) - {name})

    def _dependencies(self, name: str) -> dict[str, CiDependency]:
        found = {}
        for one in self.upstream(name):
            repo = self.repo(one)
            where = repo.path or repo.url
            if where is not None:
                found[one] = CiDependency(path=where, branch=repo.branch)
        return found

    def chain(self, name: str) -> set[str]:
        return self.graph.chain_of(name) | {name}
