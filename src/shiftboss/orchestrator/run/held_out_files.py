"""Reads the held-out tests of a plan from their files, and finds those that an agent could see."""

from __future__ import annotations

import asyncio
import hashlib
import os
import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from shiftboss.errors import InvalidPlan, ShiftbossError
from shiftboss.evidence.mirror.objects import SingleCommands, look_up, read_blobs
from shiftboss.orchestrator.git.checkouts import GitCheckout
from shiftboss.orchestrator.git.repository import GitRepo
from shiftboss.orchestrator.run.plan_branches import repo_path
from shiftboss.protocol.handoffs import HeldOutTests
from shiftboss.protocol.plan import Plan, PlanHeldOut, PlanRepo, PlanTask
from shiftboss.rules.claims.held_out import HELD_OUT_BYTES_MAX, is_too_large
from shiftboss.rules.claims.kept_tests import scan_tests
from shiftboss.rules.documents.yaml_lines import KeyPath
from shiftboss.rules.plans.graph import repo_of
from shiftboss.rules.plans.held_out import (
    VISIBLE_TESTS_MIN,
    ExposedFile,
    Exposure,
    files_named_by,
    named_test_paths,
)
from shiftboss.rules.plans.preflight import changes_expectations
from shiftboss.system.git import GitOutput

_KIB: Final = HELD_OUT_BYTES_MAX // 1024
# Enough to see that a task has more than a few tests.
_SCANNED_FILES_MAX: Final = 50
_SCANNED_FILE_BYTES_MAX: Final = 256 * 1024


def resolve_sources(task: PlanTask, folder: Path) -> PlanTask:
    """The task with absolute paths. `folder` is the one of the plan."""
    if task.held_out is None:
        return task
    files = {path: str(folder / source) for path, source in task.held_out.files.items()}
    return task.model_copy(update={"held_out": task.held_out.model_copy(update={"files": files})})


def source_problems(plan: Plan) -> Iterator[tuple[KeyPath, str]]:
    """The files that cannot be read, with the key of each."""
    for index, task in enumerate(plan.tasks):
        if task.held_out is not None:
            key: KeyPath = ("tasks", index, "held_out", "files")
            for path, problem in _problems(task.held_out):
                yield (*key, *path), problem


def _problems(held_out: PlanHeldOut) -> Iterator[tuple[KeyPath, str]]:
    texts: dict[str, str] = {}
    for path, source in held_out.files.items():
        try:
            texts[path] = _read(Path(source))
        except ValueError as error:
            yield (path,), str(error)
    tests = HeldOutTests(files=texts, criterion=held_out.criterion) if texts else None
    if tests is not None and is_too_large(tests):
        yield (), f"the files of a task must have at most {_KIB} KiB together"


def read_held_out(plan: Plan) -> dict[str, HeldOutTests]:
    """The held-out tests by task. Raises InvalidPlan if a file can no longer be read."""
    for key, problem in source_problems(plan):
        raise InvalidPlan(f"{'.'.join(map(str, key))}: {problem}", field="plan")
    return {task.id: _tests(task.held_out) for task in plan.tasks if task.held_out is not None}


def _tests(held_out: PlanHeldOut) -> HeldOutTests:
    files = {path: _read(Path(source)) for path, source in held_out.files.items()}
    return HeldOutTests(files=files, criterion=held_out.criterion)


def _read(file: Path) -> str:
    """Raises ValueError with the reason if it cannot be used."""
    try:
        with file.open("rb") as opened:
            content = opened.read(HELD_OUT_BYTES_MAX + 1)
        text = content.decode()
    except FileNotFoundError:
        raise ValueError(f"there is no file {file}") from None
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise ValueError(f"{file} is not UTF-8 text") from None
    if len(content) > HELD_OUT_BYTES_MAX:
        raise ValueError(f"{file} is larger than {_KIB} KiB")
    return text


async def find_exposed(plan: Plan, plan_file: Path) -> list[ExposedFile]:
    """The plan and its held-out files, where they are in the folder of one of its repos."""
    files = await asyncio.to_thread(lambda: dict(_sources(plan, plan_file)))
    if not files:
        return []
    by_repo = await asyncio.gather(*(_find_exposed(repo, files) for repo in plan.repos.values()))
    return [exposed for of_repo in by_repo for exposed in of_repo]


def _sources(plan: Plan, plan_file: Path) -> Iterator[tuple[Path, KeyPath]]:
    """The real path of each file, with its key. The plan itself names the held-out files."""
    for index, task in enumerate(plan.tasks):
        if task.held_out is not None:
            yield Path(os.path.realpath(plan_file)), ("tasks", index, "held_out")
    for index, task in enumerate(plan.tasks):
        if task.held_out is not None:
            for path, source in task.held_out.files.items():
                key: KeyPath = ("tasks", index, "held_out", "files", path)
                yield Path(os.path.realpath(source)), key


async def _find_exposed(repo: PlanRepo, files: Mapping[Path, KeyPath]) -> list[ExposedFile]:
    top = await asyncio.to_thread(_top_of, repo_path(repo))
    if top is None:
        return []
    inside = _inside(top, files)
    try:
        tracked = await _tracked(top, repo, sorted(inside)) if inside else set()
        stored = await _stored(top, files.keys() - inside.values())
    except ShiftbossError:
        return []  # the preflight reports a repository that cannot be read
    copied = {posixpath.normpath(name) for name in repo.copy_files}

    def exposed(file: Path, how: Exposure) -> ExposedFile:
        return ExposedFile(files[file], str(file), repo.path or str(top), how)

    return [
        *(
            exposed(
                file,
                "tracked" if name in tracked else "copied" if name in copied else "untracked",
            )
            for name, file in inside.items()
        ),
        *(exposed(file, "stored") for file in stored),
    ]


async def _stored(top: Path, files: Collection[Path]) -> list[Path]:
    """Those whose content git has under any name, in any commit. Only files with tests: others may
    well have the same content as a file of the repository."""
    blobs = await asyncio.to_thread(lambda: dict(_blobs(files)))
    if not blobs:
        return []
    blobs_there = await look_up(_objects(await GitRepo.at(top)), list(blobs))
    return [
        file for file, blob in zip(blobs.values(), blobs_there, strict=True) if blob is not None
    ]


def _blobs(files: Iterable[Path]) -> Iterator[tuple[str, Path]]:
    """By the names that git gives their contents."""
    for file in files:
        try:
            text = _read(file)
        except ValueError:
            continue  # reported as a problem of the plan
        if scan_tests(file.name, text):
            content = text.encode()
            named = b"blob %d\0%b" % (len(content), content)
            yield hashlib.sha1(named, usedforsecurity=False).hexdigest(), file


def _inside(top: Path, files: Iterable[Path]) -> dict[str, Path]:
    """By their paths in the folder."""
    return {str(file.relative_to(top)): file for file in files if file.is_relative_to(top)}


def _top_of(folder: Path) -> Path | None:
    real = Path(os.path.realpath(folder))
    return next((at for at in (real, *real.parents) if os.path.lexists(at / ".git")), None)


async def _tracked(top: Path, repo: PlanRepo, names: Sequence[str]) -> set[str]:
    """Those that git has, in the index or where work starts."""
    checkout = await asyncio.to_thread(GitCheckout.at, top)
    literal = ["--literal-pathspecs", "ls-files", "-z", "--", *names]
    index, base = await asyncio.gather(
        checkout.run(literal), list_files(await GitRepo.at(top), repo, names)
    )
    return {*index.out.decode(errors="surrogateescape").split("\0"), *base}


def _objects(git_repo: GitRepo) -> SingleCommands:
    async def run(arguments: Sequence[str], stdin: bytes) -> GitOutput:
        return await git_repo.run(arguments, stdin=stdin)

    return SingleCommands(run)


async def count_visible_tests(plan: Plan) -> dict[str, int]:
    """How many tests are in the files that the test criteria of a task name. Tasks whose criteria
    name none in particular, and those with very many files, are left out."""
    counts: dict[str, int] = {}
    for name, repo in plan.repos.items():
        tasks = [
            task
            for task in plan.tasks
            if repo_of(plan, task) == name and task.held_out is None and named_test_paths(task)
        ]
        try:
            counts |= await _count_tests(repo, tasks) if tasks else {}
        except ShiftbossError:
            continue  # the preflight reports a repository that cannot be read
    return counts


async def _count_tests(repo: PlanRepo, tasks: Sequence[PlanTask]) -> dict[str, int]:
    git_repo = await GitRepo.at(repo_path(repo))
    paths = sorted({path for task in tasks for path in named_test_paths(task)})
    there = await list_files(git_repo, repo, paths)
    objects = _objects(git_repo)
    counts: dict[str, int] = {}
    for task in tasks:
        files = files_named_by(task, there)
        if files is None or len(files) > _SCANNED_FILES_MAX:
            continue
        names = {f"{start_of(repo)}:{file}": file for file in files}
        blobs = await read_blobs(objects, list(names), _SCANNED_FILE_BYTES_MAX) if names else {}
        counts[task.id] = await asyncio.to_thread(_count, names, blobs)
    return counts


def _count(names: Mapping[str, str], blobs: Mapping[str, bytes]) -> int:
    """A file that is too large to be read counts as enough."""
    return sum(
        len(scan_tests(file, blobs[name].decode(errors="replace")))
        if name in blobs
        else VISIBLE_TESTS_MIN
        for name, file in names.items()
    )


def start_of(repo: PlanRepo) -> str:
    return "HEAD" if repo.branch is None else f"refs/heads/{repo.branch}"


async def list_files(git_repo: GitRepo, repo: PlanRepo, paths: Sequence[str] = ()) -> list[str]:
    """Those that have one of these paths, or are below one; without paths, all of them."""
    output = await git_repo.run(
        ["ls-tree", "-r", "-z", "--full-tree", "--name-only", start_of(repo), "--", *paths]
    )
    return [name for name in output.out.decode(errors="surrogateescape").split("\0") if name]


async def read_files(plan: Plan) -> dict[str, list[str]]:
    """The files of each repo whose tests the plan lets change what they expect."""
    files: dict[str, list[str]] = {}
    for name, repo in plan.repos.items():
        if changes_expectations(plan, name):
            try:
                there = await list_files(await GitRepo.at(repo_path(repo)), repo)
            except ShiftbossError:
                continue
            if there:  # the preflight reports a repository without commits or without the branch
                files[name] = there
    return files
