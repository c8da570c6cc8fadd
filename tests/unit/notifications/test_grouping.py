"""Which notifications go into one message."""

from __future__ import annotations

import pytest

from shiftboss.rules.notifications.schedule import DIGEST_FROM, DIGEST_MAX, new_message, next_group
from tests.unit.notifications.samples import letter

pytestmark = pytest.mark.requirement("OWN-20")


def test_a_few_go_one_by_one_and_many_in_one_digest() -> None:
    few = [letter(number) for number in range(1, DIGEST_FROM)]
    assert next_group(few, was_limited=False) == few[:1]
    many = [*few, letter(DIGEST_FROM)]
    assert next_group(many, was_limited=False) == many
    flood = [letter(number) for number in range(1, 200)]
    assert next_group(flood, was_limited=False) == flood[:DIGEST_MAX]


def test_what_had_to_wait_comes_together() -> None:
    two = [letter(1), letter(2)]
    assert next_group(two, was_limited=True) == two
    held = [letter(1, held=True), letter(2)]
    assert next_group(held, was_limited=False) == held
    assert next_group(two[:1], was_limited=True) == two[:1]


def test_the_id_of_a_notification_never_changes_and_each_digest_has_its_own() -> None:
    first, second = letter(1), letter(2)
    assert new_message([first], 5).message_id == new_message([first], 9).message_id
    digests = {new_message([first, second], now_ms).message_id for now_ms in (5, 9)}
    assert len(digests | {new_message([first], 5).message_id}) == 3
