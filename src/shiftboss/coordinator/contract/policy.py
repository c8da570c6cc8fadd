"""The policy of the server, with the graph of its repos and lookups by name and path."""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple

from shiftboss.errors import InvalidRequest, PolicyChanging, UnknownRepo
from shiftboss.protocol.ci import CiDemand, CiDependency
from shiftboss.protocol.handoff_requests import SpawnSubtaskRequest
from shiftboss.protocol.policy import Policy, RepoPolicy
from shiftboss.rules.contract.repo_graph import RepoGraph
from shiftboss.rules.paths.branch_names import task_branch
from shiftboss.store.port import Transaction


class _Version(NamedTuple):
    number: int
    settings: Policy
    graph: RepoGraph
    by_folder: dict[str, str]


def policy_hash(policy: Policy) -> str:
    """The same for files that mean the same."""
    return sha256(policy.model_dump_json().encode()).hexdigest()


class ActivePolicy:
    """The policy that is in force on this server. It is replaced while the server runs, by one
    assignment: use cases run on other threads. Version 0 is not stored."""

    def __init__(self, settings: Policy, *, is_shared: bool = False) -> None:
        """`is_shared`: another server may replace the policy in the store."""
        self._is_shared = is_shared
        self.replace(settings, 0)

    def replace(self, settings: Policy, version: int) -> None:
        graph = RepoGraph({name: repo.depends_on for name, repo in settings.repos.items()})
        # The git folder that all work trees share: `.git`, or the path of a bare repository.
        by_folder = {
            folder: name
            for name, repo in settings.repos.items()
            if repo.path is not None
            for folder in (f"{repo.path}/.git", repo.path)
        } | {
            repo.url: name
            for name, repo in settings.repos.items()
            if repo.path is None and repo.url is not None
        }
        self._in_force = _Version(version, settings, graph, by_folder)

    @property
    def version(self) -> int:
        return self._in_force.number

    @property
    def settings(self) -> Policy:
        return self._in_force.settings

    @property
    def graph(self) -> RepoGraph:
        return self._in_force.graph

    def check_current(self, tx: Transaction) -> None:
        """Raises PolicyChanging if another server has replaced the policy and this one has not
        heard of it: two policies could let both halves of a chain be worked on."""
        if self._is_shared:
            current = tx.current_policy_version()
            if current != self.version:
                raise PolicyChanging(
                    f"version {current} of the policy is in force, and this server still has "
                    f"version {self.version}; nothing was changed",
                    hint="send the same request again; if that does not help, read the log of the "
                    "server",
                )

    def __contains__(self, repo: str | None) -> bool:
        return repo in self.settings.repos

    def repo(self, name: str) -> RepoPolicy:
        try:
            return self.settings.repos[name]
        except KeyError:
            raise UnknownRepo(
                f"The policy has no repo {name!r}",
                field="repo",
                hint="`shiftboss policy show` lists them",
            ) from None

    @property
    def has_folders(self) -> bool:
        """Whether a repo of the policy can be given by its path."""
        return bool(self._in_force.by_folder)

    def name_at(self, folder: str) -> str | None:
        """The name of the repo whose work trees share this git folder."""
        return self._in_force.by_folder.get(folder)

    def path_of(self, name: str) -> str:
        """The path of the repo on this machine, or its URL."""
        repo = self.repo(name)
        location = repo.path or repo.url
        if location is None:
            raise UnknownRepo(
                f"{name} has neither a path nor a url in the policy, and its commits have to be "
                "read",
                field="repo",
                hint=f"set repos.{name}.path or repos.{name}.url in shiftboss.yaml",
            )
        return location

    def has_url(self, url: str) -> bool:
        return any(repo.url == url for repo in self.settings.repos.values())

    def branch_for(self, name: str | None, request: SpawnSubtaskRequest) -> str | None:
        """The branch for work on a repo of the policy: the repo's branch, or the task's own branch
        if it lands there later. CI of any other branch would say nothing about the repo."""
        if name is None:
            return None
        branch, own = self.repo(name).branch, task_branch(request.bead_id)
        if request.branch == own and request.target == branch:
            return own
        if request.branch not in (None, branch):
            raise InvalidRequest(
                f"branch: work on {name} belongs on {branch}, not on {request.branch}",
                field="branch",
                hint=f"leave it out; use {own} with {branch} as its target; or change "
                f"repos.{name}.branch in the policy",
            )
        if request.target not in (None, branch):
            raise InvalidRequest(
                f"target: work on {name} belongs on {branch}, not on {request.target}",
                field="target",
                hint=f"leave it out, or change repos.{name}.branch in the policy",
            )
        return branch

    def demand(self, name: str, path: str, branch: str | None = None) -> CiDemand:
        """The CI requirements for a commit of the repo, on the repo's branch or another."""
        repo = self.repo(name)
        return CiDemand(
            repo=name,
            repo_path=path,
            branch=branch or repo.branch,
            policy=repo.ci,
            dependencies=self._dependencies(name) if repo.ci.provider == "local" else {},
        )

    def upstream(self, name: str) -> list[str]:
        """All repos that this one depends on, directly or indirectly."""
        return sorted(self.graph.chain_of(name) - self.graph.downstream_of(name) - {name})

    def _dependencies(self, name: str) -> dict[str, CiDependency]:
        dependencies = {}
        for upstream in self.upstream(name):
            repo = self.repo(upstream)
            location = repo.path or repo.url
            if location is not None:
                dependencies[upstream] = CiDependency(path=location, branch=repo.branch)
        return dependencies

    def chain(self, name: str) -> set[str]:
        return self.graph.chain_of(name) | {name}
