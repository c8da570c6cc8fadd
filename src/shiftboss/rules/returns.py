"""What a worker gives back at completion, as the summary of its receipt. It is the worker's word:
what was changed and what CI said stands in the receipt by itself."""

from __future__ import annotations

from typing import Final

from shiftboss.protocol.contract_requests import CompletionReturn

PATHS_SHOWN_MAX: Final = 50


def summary_of(returns: CompletionReturn) -> str:
    parts = (
        ("Files created", returns.files_created),
        ("Files modified", returns.files_modified),
        ("Tests added", returns.tests_added),
    )
    named = [f"{title}: {_shown(paths)}" for title, paths in parts if paths]
    return "\n".join([returns.summary, *named, f"CI run: {returns.ci_run_id}"])


def _shown(paths: list[str]) -> str:
    more = len(paths) - PATHS_SHOWN_MAX
    return ", ".join([*paths[:PATHS_SHOWN_MAX], *([f"and {more} more"] if more > 0 else [])])
