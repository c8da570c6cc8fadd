"""Blocks between markers, the draft policy, and guesses about how a repository is tested."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftboss.agents.registry import AGENTS
from shiftboss.init.project import COMMENT, guessed_jobs, policy_draft, repo_name
from shiftboss.init.setup import LINES
from shiftboss.rules.contract.policy_file import read_policy
from shiftboss.rules.documents.file_edits import CannotMerge
from shiftboss.rules.documents.text_blocks import (
    HASH,
    HTML,
    BrokenBlock,
    is_untouched,
    with_block,
    without_block,
)


@given(st.lists(st.sampled_from(["a", "\n", "\r\n", "\r", " ", "#", "é"])))
def test_adding_and_removing_a_block_restores_every_byte(parts: list[str]) -> None:
    text = "".join(parts)
    added = with_block(text, ["one", "two"], HASH)
    assert with_block(added, ["one", "two"], HASH) == added
    assert without_block(added, HASH) == text
    newer = with_block(added, ["three"], HASH)
    assert "one" not in newer
    assert without_block(newer, HASH) == text


def test_a_file_created_for_a_block_is_removed_with_it() -> None:
    fresh = with_block(None, ["one"], HTML)
    assert fresh == f"{HTML.begin}\none\n{HTML.end}\n"
    assert without_block(fresh, HTML) is None
    assert without_block(fresh + "mine\n", HTML) == "mine\n"
    assert without_block("mine\n", HTML) == "mine\n"
    assert without_block(f"mine\n{fresh}more\n", HTML) == "mine\nmore\n"


def test_line_endings_follow_the_file() -> None:
    added = with_block("a\r\nb\r\n", ["one", "two"], HASH)
    assert added.count("\n") == added.count("\r\n") == 7


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"a\n{HASH.begin}\n", 2),
        (f"{HASH.end}\n", 1),
        (f"{HASH.end}\n{HASH.begin}\n", 2),
        (f"{HASH.begin}\n{HASH.end}\n\n{HASH.begin}\n{HASH.end}\n", 1),
    ],
)
def test_broken_markers_are_reported_with_their_line(text: str, line: int) -> None:
    for change in (without_block, lambda text, markers: with_block(text, ["one"], markers)):
        with pytest.raises(BrokenBlock) as refused:
            change(text, HASH)
        assert refused.value.line == line


def test_the_page_for_agents_is_short() -> None:
    assert len(LINES) + 2 < 25


def test_a_toml_file_keeps_its_contents_or_is_refused() -> None:
    edit = AGENTS["codex"].setup_files(())[0]
    text = 'model = "x"\n\n[mcp_servers.other]\nurl = "y"'
    added = edit.with_ours(text) or ""
    assert edit.with_ours(added) == added
    assert edit.without_ours(added) == text
    own = '[mcp_servers.shiftboss]\nurl = "http://elsewhere/mcp"\n'
    assert edit.with_ours(own) == own
    assert edit.is_left(own)
    with pytest.raises(CannotMerge, match="at its end") as refused:
        edit.with_ours('mcp_servers = {other = {url = "y"}}\n')
    assert "[mcp_servers.shiftboss]" in (refused.value.by_hand or "")
    with pytest.raises(CannotMerge, match=r"is not valid TOML: .*line 2"):
        edit.with_ours("a = 1\nb = \n")


NODE = json.dumps({"scripts": {"test": "vitest"}})
NO_TEST = json.dumps({"scripts": {"test": 'echo "Error: no test specified" && exit 1'}})


@pytest.mark.parametrize(
    ("files", "jobs"),
    [
        ({}, {}),
        ({"Makefile": "all:\n\ntest: all\n\tpytest\n", "go.mod": ""}, {"test": ["make test"]}),
        ({"Makefile": "check:\n\ttrue\n"}, {"test": ["make check"]}),
        ({"Makefile": "test := 1\n", "go.mod": ""}, {"test": ["go test ./..."]}),
        ({"pyproject.toml": "[tool.pytest.ini_options]\n"}, {"test": ["python3 -m pytest"]}),
        ({"pyproject.toml": "[project]\nname = 'x'\n"}, {}),
        (
            {"package.json": NODE, "yarn.lock": ""},
            {"test": ["yarn install --frozen-lockfile", "yarn run test"]},
        ),
        ({"package.json": NODE}, {"test": ["npm install", "npm run test"]}),
        ({"package.json": NO_TEST}, {}),
        ({"package.json": "{"}, {}),
        ({"package.json": "[]"}, {}),
        (
            {"Cargo.toml": "", "pytest.ini": ""},
            {"test-python": ["python3 -m pytest"], "test-rust": ["cargo test"]},
        ),
    ],
)
def test_jobs_are_guessed_from_the_files_of_the_repository(
    files: dict[str, str], jobs: dict[str, list[str]]
) -> None:
    assert guessed_jobs(files) == jobs


@pytest.mark.parametrize("name", ["core", "no", "1.5", "my repo", "-", "Ärger", "a" * 200])
@pytest.mark.parametrize("branch", ["main", "true", "feature/x#1", "it's: so"])
def test_a_draft_is_a_valid_policy_and_recognised_until_edited(name: str, branch: str) -> None:
    jobs = {"test": ["make test"], "lint": ['npm run "a b"']}
    draft = policy_draft(repo_name(name), branch, jobs)
    assert read_policy(draft, "shiftboss.yaml").repos == {}, "tasks run side by side"
    repo = read_policy(with_repo(draft), "shiftboss.yaml").repos[repo_name(name)]
    assert (repo.path, repo.branch) == (".", branch)
    assert {job: one.run for job, one in repo.ci.jobs.items()} == jobs
    assert repo.ci.required_jobs == list(jobs)
    assert is_untouched(draft, COMMENT)
    assert is_untouched(draft.replace("\n", "\r\n"), COMMENT)
    assert not is_untouched(draft.replace("path: .", "path: ./"), COMMENT)
    assert not is_untouched(draft + "locking: chain\n", COMMENT)


def with_repo(draft: str) -> str:
    """The draft with its entry for the repository in force, as its comment says."""
    return draft.replace("repos: {}\n", "repos:\n").replace("\n#  ", "\n  ")


def test_a_repository_without_tests_gets_an_example_job() -> None:
    draft = policy_draft("sums", "main", {})
    assert is_untouched(draft, COMMENT)
    repo = read_policy(with_repo(draft), "shiftboss.yaml").repos["sums"]
    assert (repo.branch, repo.ci.required_jobs) == ("main", ["test"])
