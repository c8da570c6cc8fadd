"""Success criteria that a description states."""

from __future__ import annotations

import pytest

from shiftboss.rules.handoffs.described_criteria import described_criteria


@pytest.mark.parametrize(
    ("line", "criterion"),
    [
        ("Tests pass: bun test a.ts", "Tests pass: bun test a.ts"),
        ("  tests pass:pytest", "Tests pass: pytest"),
        ("- Type check passes: tsc --noEmit", "Type check passes: tsc --noEmit"),
        ("* [ ] Command passes: make lint", "Command passes: make lint"),
        ("2. [x] Tests pass: pytest", "Tests pass: pytest"),
        ("**Tests pass:** `pytest -k 'a b'`", "Tests pass: pytest -k 'a b'"),
        ("- Tests pass: ``pytest``", "Tests pass: pytest"),
    ],
)
def test_a_checkable_line_counts_anywhere_in_the_description(line: str, criterion: str) -> None:
    assert described_criteria(f"Do it.\n\n{line}\nAnd more.") == [criterion]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "All tests pass: see there",
        "Make the tests pass.",
        "The success criteria are unclear",
        "Done when it is done",
        "## Success criteria\n",
    ],
)
def test_prose_is_not_a_criterion(text: str) -> None:
    assert described_criteria(text) == []


@pytest.mark.parametrize(
    "heading",
    [
        "## Success criteria",
        "Acceptance Criteria:",
        "**Done when**",
        "### Acceptance criteria for the login ###",
        "__Done when:__",
    ],
)
def test_items_listed_under_a_heading_are_criteria(heading: str) -> None:
    text = f"""Intro.

{heading}

- login() gives a token
- [ ] a wrong password
  is refused
* Tests pass: pytest

Then tidy up.
- not this
"""
    assert described_criteria(text) == [
        "Tests pass: pytest",
        "login() gives a token",
        "a wrong password is refused",
    ]


def test_the_next_heading_ends_the_list() -> None:
    text = (
        "Success criteria:\n1. one\n2) two\n\n3. three\n## Notes\n- four\n**Done when:** five\nsix"
    )
    assert described_criteria(text) == ["one", "two", "three", "five"]


def test_lines_without_bullets_count_up_to_the_blank_line() -> None:
    assert described_criteria("Done when:\none\ntwo\n\nthree") == ["one", "two"]


def test_a_repeated_criterion_counts_once() -> None:
    assert described_criteria("Tests pass: a\n- Tests pass: `a`") == ["Tests pass: a"]


@pytest.mark.parametrize(
    "line",
    [
        "Tests pass: npm test && npm run lint",
        "- Command passes: FOO=1 make",
        "Tests pass: pytest | tee log",
        "Tests pass:",
        "Tests pass: 'open",
        "Tests pass: run `this` and that",
    ],
)
def test_a_command_that_cannot_be_run_is_refused(line: str) -> None:
    with pytest.raises(ValueError):
        described_criteria(f"Do it\n{line}\n")


def test_the_number_and_length_of_criteria_are_limited() -> None:
    with pytest.raises(ValueError, match="51 success criteria are too many"):
        described_criteria("Done when:\n" + "".join(f"- {number}\n" for number in range(51)))
    with pytest.raises(ValueError, match="at most 2000"):
        described_criteria("Done when:\n- " + "x" * 2001)
