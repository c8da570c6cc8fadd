"""The identity of a repository that is named by a URL."""

from __future__ import annotations

from pathlib import Path

import pytest

from shiftboss.evidence.mirror.mirror import Mirrors
from shiftboss.evidence.mirror.remote_repository import MirroredRepository

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-06")]


async def test_asking_for_many_urls_keeps_none_of_them(tmp_path: Path) -> None:
    """Readers can ask `who_owns` about any URL."""
    mirrors = Mirrors(tmp_path, [])
    repository = MirroredRepository(mirrors)
    for number in range(3):
        url = f"https://example.org/{number}.git"
        assert await repository.identity(url) == url
    assert mirrors._mirrors == {}
