"""What the tasks of a plan say that cannot hold. It looks at the raw data, see `plan_sense`."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from shiftboss.rules.branches import is_branch_name, task_branch
from shiftboss.rules.criteria import parse_criterion
from shiftboss.rules.described_criteria import described_criteria
from shiftboss.rules.merge_tasks import is_merge
from shiftboss.rules.near_names import did_you_mean
from shiftboss.rules.raw_data import Contradiction, mapping, patterns, texts, twice, unknown
from shiftboss.rules.repo_graph import find_cycles
from shiftboss.rules.scope import normalised
from shiftboss.rules.tasks import is_reserved
from shiftboss.rules.yaml_lines import Path


def task_contradictions(tasks: list[Any], repos: Collection[str]) -> Iterator[Contradiction]:
    yield from _ids(tasks)
    yield from _dependencies(tasks)
    for place, raw in enumerate(tasks):
        path: Path = ("tasks", place)
        task = mapping(raw)
        yield from _repo(path, task, repos)
        yield from _files(path, task)
        yield from _criteria(path, task)


def _ids(tasks: list[Any]) -> Iterator[Contradiction]:
    known: dict[str, str] = {}
    seen: set[str] = set()
    for place, task_id in _ids_of(tasks):
        path: Path = ("tasks", place, "id")
        first = known.setdefault(task_id.casefold(), task_id)
        if first != task_id:
            yield path, f"differs from {first!r} by letter case only"
        elif task_id in seen:
            yield path, f"{task_id!r} is the id of an earlier task as well"
        seen.add(task_id)
        if is_reserved(task_id):
            yield path, f"{task_id!r} is kept for work packets; choose another"
        elif is_merge(task_id):
            yield path, f"{task_id!r} ends as the tasks that landings make; choose another"
        elif not is_branch_name(task_branch(task_id)):
            yield path, f"{task_id!r} {_not_in_a_branch(task_id)}; its branch takes the name"


def _not_in_a_branch(task_id: str) -> str:
    """Of the letters that an id can have, these are what git forbids."""
    if ":" in task_id:
        return "holds a colon, which git allows in no branch"
    if ".." in task_id:
        return "holds .., which git allows in no branch"
    if task_id.endswith(".lock"):
        return "ends with .lock, as no branch of git can"
    if task_id.endswith("."):
        return "ends with a dot, as no branch of git can"
    return "cannot be in the name of a branch"


def _dependencies(tasks: list[Any]) -> Iterator[Contradiction]:
    places: dict[str, int] = {}
    graph: dict[str, list[str]] = {}
    for place, task_id in _ids_of(tasks):
        if places.setdefault(task_id, place) == place:
            graph[task_id] = [one for _, one in texts(tasks[place].get("depends_on"))]
    for place, raw in enumerate(tasks):
        path: Path = ("tasks", place, "depends_on")
        named = texts(mapping(raw).get("depends_on"))
        yield from unknown(path, named, graph, "task")
        yield from twice(path, named)
    for cycle in find_cycles(graph):
        yield (
            ("tasks", places[cycle[0]], "depends_on"),
            f"the tasks wait for each other in a circle: {' -> '.join(cycle)}",
        )


def _ids_of(tasks: list[Any]) -> Iterator[tuple[int, str]]:
    return (
        (place, task["id"])
        for place, task in enumerate(tasks)
        if isinstance(task, dict) and isinstance(task.get("id"), str)
    )


def _repo(path: Path, task: dict[str, Any], repos: Collection[str]) -> Iterator[Contradiction]:
    name = task.get("repo")
    if isinstance(name, str) and name not in repos:
        yield (*path, "repo"), f"there is no repo {name!r}{did_you_mean(name, repos)}"
    elif name is None and len(repos) > 1:
        yield path, f"needs a repo: the plan has several ({', '.join(repos)})"


def _files(path: Path, task: dict[str, Any]) -> Iterator[Contradiction]:
    owned, readonly = texts(task.get("files_owned")), texts(task.get("files_readonly"))
    yield from patterns((*path, "files_owned"), owned)
    yield from patterns((*path, "files_readonly"), readonly)
    closed = {_plain(one) for _, one in readonly}
    for place, one in owned:
        if _plain(one) in closed:
            yield (*path, "files_owned", place), f"{one!r} is in files_readonly too, which counts"


def _plain(pattern: str) -> str:
    try:
        return normalised(pattern)
    except ValueError:
        return pattern


def _criteria(path: Path, task: dict[str, Any]) -> Iterator[Contradiction]:
    """As the server judges them when the task is spawned."""
    for place, text in texts(task.get("criteria")):
        try:
            parse_criterion(text)
        except ValueError as error:
            yield (*path, "criteria", place), str(error)
    description = task.get("description")
    if isinstance(description, str):
        try:
            described_criteria(description)
        except ValueError as error:
            yield (*path, "description"), f"states a criterion that cannot be checked: {error}"
