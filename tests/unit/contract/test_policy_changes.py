"""What differs between two policies, as people read it."""

from __future__ import annotations

from shiftboss.rules.contract.policy_changes import policy_changes
from shiftboss.rules.contract.policy_file import read_policy


def changes(before: str, after: str) -> list[str]:
    old, new = (read_policy(text, "p") for text in (before, after))
    return [str(change) for change in policy_changes(old, new)]


def test_comments_spelling_and_defaults_are_no_changes() -> None:
    before = "repos: {web: {path: /w, branch: main}}\ntimeouts: {worker: 30m}\n"
    after = "# new\ntimeouts: {worker: 1800}\nrepos:\n  web:\n    path: /w\n"
    assert changes(before, after) == []


def test_each_value_that_changes_has_its_key_and_both_values() -> None:
    before = "repos: {a: {path: /a}, b: {path: /b, branch: main}}\n"
    after = (
        "repos: {a: {path: /a}, b: {path: /b, branch: trunk, depends_on: [a]}}\nlocking: chain\n"
    )
    assert changes(before, after) == [
        "~ repos.b.branch: main -> trunk",
        '~ repos.b.depends_on: [] -> ["a"]',
        "~ locking: neighbours -> chain",
    ]


def test_repos_that_come_and_go_are_shown_as_they_were_written() -> None:
    assert changes("repos: {a: {path: /a}}\n", "repos: {b: {path: /b, branch: dev}}\n") == [
        '- repos.a: {"path":"/a"}',
        '+ repos.b: {"path":"/b","branch":"dev"}',
    ]
