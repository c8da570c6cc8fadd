"""Claims that a verifier cannot look at: when it looks again, and whether anybody else can.

A verifier without the repository or a tool knows nothing about the work. It passes on the claim,
which another verifier then takes. When all have passed, the claim waits for a person.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from shiftboss.rules.claims.claims import VERIFIER_SECONDS, Claim, ClaimPass

# How long a verifier leaves a claim alone that it has passed on. Doubled every time.
FIRST_PAUSE_MS: Final = 30_000
PAUSE_MS_MAX: Final = 15 * 60 * 1000
# A verifier that has asked for nothing for this long counts as gone.
ALIVE_MS: Final = VERIFIER_SECONDS * 1000
# How long a claim waits for a verifier if there is none.
NOBODY_MS: Final = 5 * 60 * 1000
REASON_CHARACTERS_MAX: Final = 1000
# A text names at most this many verifiers.
PASSES_NAMED_MAX: Final = 5


def next_pass(
    claim: Claim,
    earlier: Sequence[ClaimPass],
    verifier: str,
    reason: str,
    verdict: str | None,
    now_ms: int,
) -> ClaimPass:
    times = 1 + max((each.times for each in earlier if each.verifier == verifier), default=0)
    pause_ms = min(FIRST_PAUSE_MS * 2 ** min(times - 1, 20), PAUSE_MS_MAX)
    return ClaimPass(
        swarm_id=claim.swarm_id,
        task_id=claim.task_id,
        claim_id=claim.claim_id,
        verifier=verifier,
        reason=reason[:REASON_CHARACTERS_MAX],
        times=times,
        passed_at_ms=now_ms,
        again_at_ms=now_ms + pause_ms,
        verdict=verdict,
    )


def can_be_verified(living: Collection[str], passes: Iterable[ClaimPass]) -> bool:
    """Whether a living verifier is left that has not passed on the claim."""
    return bool(set(living) - {each.verifier for each in passes})


def is_given_up(
    claim: Claim, living: Collection[str], passes: Sequence[ClaimPass], now_ms: int
) -> bool:
    """Whether nobody will verify the claim. If none has come, one may still be starting."""
    if can_be_verified(living, passes):
        return False
    return bool(passes) or now_ms - claim.asked_at_ms >= NOBODY_MS


def obstacle(passes: Sequence[ClaimPass]) -> str:
    """Why nobody verifies the claim."""
    if not passes:
        return "no verifier has asked for it"
    named = [f"{each.verifier}: {each.reason}" for each in passes[:PASSES_NAMED_MAX]]
    more = len(passes) - len(named)
    return "; ".join([*named, *([f"and {more} more"] if more > 0 else [])])


def waiting_for(
    claim: Claim, living: Collection[str], passes: Sequence[ClaimPass], now_ms: int
) -> str | None:
    """Why the claim waits; None if a verifier works on it."""
    if claim.state == "taken" and (claim.taken_until_ms or 0) > now_ms:
        return None
    if claim.state == "taken":
        return f"its verifier {claim.taken_by} was lost; another one has to come"
    if passes and not can_be_verified(living, passes):
        return f"no verifier can verify it: {obstacle(passes)}"
    if not living:
        return "no verifier is there"
    if claim.tries:
        return f"its verification failed {claim.tries} times and is tried again"
    busy = "the verifiers are" if len(living) > 1 else "the verifier is"
    return f"{busy} busy, or about to take it"
