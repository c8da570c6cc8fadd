"""Which criteria are commands."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftboss.rules.claims.criteria import (
    parse_command,
    parse_criterion,
)
from shiftboss.rules.claims.environment_variables import is_variable_allowed

pytestmark = pytest.mark.requirement("HO-05")


@pytest.mark.parametrize(
    ("text", "kind", "argv"),
    [
        ("Tests pass: bun test src/a.test.ts", "tests", ("bun", "test", "src/a.test.ts")),
        ("  tests PASS:pytest -q  ", "tests", ("pytest", "-q")),
        ("Type check passes: tsc --noEmit", "type_check", ("tsc", "--noEmit")),
        ("Type  check  passes : mypy .", "type_check", ("mypy", ".")),
        ("command passes: ./run.sh 'a b'", "command", ("./run.sh", "a b")),
        ("Command passes: grep 'a|b' f", "command", ("grep", "a|b", "f")),
        ('Command passes: grep "a;b" f', "command", ("grep", "a;b", "f")),
        (r"Command passes: echo a\;b \$HOME", "command", ("echo", "a;b", "$HOME")),
        (
            "Tests pass: go test -run 'Test$' ./...",
            "tests",
            ("go", "test", "-run", "Test$", "./..."),
        ),
        ("Tests pass: go test -run Test$", "tests", ("go", "test", "-run", "Test$")),
        ("Tests pass: pytest t.py::test_a[b-c]", "tests", ("pytest", "t.py::test_a[b-c]")),
        ("Command passes: env A=1 make", "command", ("env", "A=1", "make")),
    ],
)
def test_a_criterion_that_names_a_command_is_checkable(
    text: str, kind: str, argv: tuple[str, ...]
) -> None:
    criterion = parse_criterion(text)
    assert criterion is not None
    assert (criterion.kind, criterion.argv) == (kind, argv)


@pytest.mark.parametrize(
    "text",
    [
        "AuthService.login() returns a token",
        "All tests pass: pytest",
        "Tests pass",
        "Tests passed: pytest",
        "",
    ],
)
def test_other_criteria_are_not_checkable(text: str) -> None:
    assert parse_criterion(text) is None


@pytest.mark.parametrize(
    ("command", "culprit"),
    [
        ("a && b", "'&&'"),
        ("a || b", "'||'"),
        ("a | b", "'|'"),
        ("a; b", "';'"),
        ("a > f", "'>'"),
        ("a < f", "'<'"),
        ("a 2>&1", "'>'"),
        ("a &", "'&'"),
        ("(a)", "'('"),
        ("a\nb", r"contains '\n'"),
        ("a $(b)", "'$('"),
        ('a "$(b)"', "'$('"),
        ("a `b`", "'`'"),
        ('a "`b`"', "'`'"),
        ("a $HOME", "'$H'"),
        ("a ${HOME}", "'${'"),
        ('''a "'$HOME'"''', "'$H'"),
        ("VAR=1 a", "assignment"),
        ("a 'b", "No closing quotation"),
        ('a "b', "No closing quotation"),
        ("a \\", "No escaped character"),
        ("", "names no program"),
        ("   ", "names no program"),
        ("'' a", "names no program"),
    ],
)
def test_a_command_for_a_shell_is_refused(command: str, culprit: str) -> None:
    with pytest.raises(ValueError, match="split it into several criteria") as refused:
        parse_criterion(f"Command passes: {command}")
    assert culprit in str(refused.value)


@given(st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8")), min_size=1))
def test_quoted_arguments_are_parsed_unchanged(words: list[str]) -> None:
    argv = ("run", *words)
    assert parse_command(shlex.join(argv)) == argv


@pytest.mark.parametrize("name", ["SHIFTBOSS_TOKEN", "shiftboss_db", "LD_PRELOAD", "LD_AUDIT"])
def test_our_own_variables_and_injected_code_are_never_passed_on(name: str) -> None:
    assert not is_variable_allowed(name)
    assert is_variable_allowed("DATABASE_URL")
