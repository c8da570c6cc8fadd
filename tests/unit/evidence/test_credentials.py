"""The secrets that a policy names: variables, files, and what is said when one is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from shiftboss.evidence.ci.credentials import (
    BadCredential,
    credential_problems,
    read_token,
    read_webhook_secret,
)
from shiftboss.evidence.survey.policy_file import load_policy
from shiftboss.protocol.policy import CiPolicy, Policy, RepoPolicy

TOKEN = "the-token-of-the-forge"


def ci(**members: str) -> CiPolicy:
    return CiPolicy.model_validate({"provider": "github", "repository": "a/b", **members})


def secret_file(folder: Path, text: str = TOKEN, mode: int = 0o600) -> Path:
    path = folder / "secret"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    path = secret_file(tmp_path)
    policy = ci(token_file=str(path), webhook_secret_file=str(path))
    assert (read_token(policy), read_webhook_secret(policy)) == (TOKEN, TOKEN)
    secret_file(tmp_path, "another\n")
    assert (read_token(policy), read_webhook_secret(policy)) == ("another", "another")


def test_the_variable_comes_first_and_the_file_helps_if_it_is_not_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = ci(token_variable="FORGE_TOKEN", token_file=str(secret_file(tmp_path)))
    monkeypatch.setenv("FORGE_TOKEN", "from-the-variable")
    assert read_token(policy) == "from-the-variable"
    monkeypatch.delenv("FORGE_TOKEN")
    assert read_token(policy) == TOKEN


def test_without_a_name_there_is_no_secret_and_no_problem() -> None:
    assert read_token(ci()) is None
    assert read_webhook_secret(ci()) == ""
    assert credential_problems(Policy(repos={"a": RepoPolicy(ci=ci())})) == []


@pytest.mark.parametrize(
    ("text", "mode", "problem"),
    [
        (TOKEN, 0o644, "Other users can read"),
        ("", 0o600, "there is no token in"),
        (f"{TOKEN} and more", 0o600, "is not a token"),
        (None, 0o600, "cannot be read"),
    ],
)
def test_a_bad_file_is_a_problem_that_names_the_file_and_not_its_content(
    tmp_path: Path, text: str | None, mode: int, problem: str
) -> None:
    path = tmp_path / "secret"
    if text is not None:
        secret_file(tmp_path, text, mode)
    policy = ci(token_file=str(path))
    with pytest.raises(BadCredential, match=problem) as caught:
        read_token(policy)
    said = f"{caught.value.detail} {caught.value.hint}"
    assert str(path) in said
    assert TOKEN not in said
    assert read_webhook_secret(ci(webhook_secret_file=str(path))) in ("", f"{TOKEN} and more")


def test_problems_name_the_variable_and_its_repos(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_TOKEN", raising=False)
    monkeypatch.setenv("SET_TOKEN", TOKEN)
    missing = RepoPolicy(ci=ci(token_variable="NO_TOKEN"))
    policy = Policy(
        repos={
            "a": missing,
            "b": missing,
            "c": RepoPolicy(ci=ci(token_variable="SET_TOKEN", webhook_secret_variable="NO_TOKEN")),
            "local": RepoPolicy(path="/r", ci=CiPolicy(token_variable="NO_TOKEN")),
        }
    )
    problems = credential_problems(policy)
    assert [(each.kind, each.place, each.repos) for each in problems] == [
        ("token", "$NO_TOKEN", ["a", "b"]),
        ("webhook_secret", "$NO_TOKEN", ["c"]),
    ]
    assert TOKEN not in str(problems)


def test_files_are_relative_to_the_policy_file(tmp_path: Path) -> None:
    secret_file(tmp_path)
    (tmp_path / "shiftboss.yaml").write_text(
        "repos: {a: {ci: {provider: github, repository: a/b, token_file: secret}}}\n"
    )
    repo = load_policy(tmp_path / "shiftboss.yaml").repos["a"]
    assert read_token(repo.ci) == TOKEN
