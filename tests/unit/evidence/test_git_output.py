"""What is shown of the messages of git."""

from __future__ import annotations

import pytest

from shiftboss.system.git import GitOutput


@pytest.mark.parametrize(
    ("messages", "shown"),
    [
        (
            "hint: Support for grafts is deprecated\nfatal: bad object abc\n",
            "fatal: bad object abc",
        ),
        ("warning: unable to access\n\nerror: no such remote\n", "error: no such remote"),
        (
            "remote: hint: grafts\nremote: warning: slow        \nremote: fatal: no blob        \n",
            "fatal: no blob",
        ),
        ("From /repo\nerror: cannot lock ref\nfatal: later\n", "error: cannot lock ref"),
        ("remote: Repository not found.\n", "Repository not found."),
        ("hint: only advice\n", "hint: only advice"),
        ("", "exit code 128"),
    ],
)
def test_the_error_is_shown_and_not_the_advice_before_it(messages: str, shown: str) -> None:
    assert GitOutput(128, b"", messages).first_error == shown
