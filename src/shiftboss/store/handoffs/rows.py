"""The rows of handoffs: contracts, claims, ownership, receipts, strategy signals."""

from __future__ import annotations

import json
from dataclasses import asdict

from shiftboss.protocol.claims.verdicts import CheckName, Waiver
from shiftboss.protocol.handoffs import HeldOutTests, canonical_json
from shiftboss.rules.claims.claims import Claim, ClaimPass
from shiftboss.rules.handoffs.handoffs import Handoff, Reservation, ScopeRequest, Signal
from shiftboss.rules.handoffs.strategies import StrategyRecord
from shiftboss.store.handoffs.port import ReceiptRow
from shiftboss.store.transaction_part import Row, TransactionPart


class HandoffRows(TransactionPart):
    """Implements `shiftboss.store.handoffs.port.HandoffTransaction`."""

    def handoff(self, swarm_id: str, task_id: str, version: int | None = None) -> Handoff | None:
        keys: dict[str, object] = {"swarm_id": swarm_id, "task_id": task_id}
        if version is None:
            row = self._session.fetch_one("handoff", keys)
        else:
            row = self._session.fetch_one("handoff_version", keys | {"version": version})
        return None if row is None else Handoff._make((*row[:-1], bool(row[-1])))

    def add_handoff(self, handoff: Handoff) -> None:
        self._write("add_handoff", handoff._asdict())

    def held_out_tests(self, handoff: Handoff) -> HeldOutTests | None:
        if handoff.held_out is None:
            return None
        row = self._session.fetch_one("held_out_tests", _held_out_key(handoff))
        assert row is not None, "they are stored with the handoff"
        return HeldOutTests.model_validate_json(row[0])

    def put_held_out_tests(self, handoff: Handoff, tests: HeldOutTests) -> None:
        body = canonical_json(tests).decode()
        self._write("put_held_out_tests", _held_out_key(handoff) | {"body": body})

    def mark_planned(self, handoff: Handoff) -> None:
        keys = ("swarm_id", "task_id", "version")
        columns = handoff._asdict()
        self._write("mark_planned", {key: columns[key] for key in keys} | {"planned": True})

    # -- claims

    def claim(self, swarm_id: str, task_id: str, claim_id: int) -> Claim | None:
        row = self._session.fetch_one(
            "claim", {"swarm_id": swarm_id, "task_id": task_id, "claim_id": claim_id}
        )
        return None if row is None else Claim._make(row)

    def last_claim(self, swarm_id: str, task_id: str) -> Claim | None:
        row = self._session.fetch_one("last_claim", {"swarm_id": swarm_id, "task_id": task_id})
        return None if row is None else Claim._make(row)

    def claims_of_task(self, swarm_id: str, task_id: str, limit: int) -> list[Claim]:
        rows = self._session.fetch_all(
            "claims_of_task", {"swarm_id": swarm_id, "task_id": task_id, "limit": limit}
        )
        return [Claim._make(row) for row in rows]

    def next_claim(self, now_ms: int, verifier: str) -> Claim | None:
        row = self._session.fetch_one("next_claim", {"now_ms": now_ms, "verifier": verifier})
        return None if row is None else Claim._make(row)

    def next_claim_at_ms(self, verifier: str) -> int | None:
        row = self._session.fetch_one("next_claim_at_ms", {"verifier": verifier})
        return None if row is None else row[0]

    def open_claims(self, swarm_id: str, limit: int) -> list[Claim]:
        rows = self._session.fetch_all("open_claims", {"swarm_id": swarm_id, "limit": limit})
        return [Claim._make(row) for row in rows]

    def escalated_claims(self, swarm_id: str, limit: int) -> list[Claim]:
        rows = self._session.fetch_all("escalated_claims", {"swarm_id": swarm_id, "limit": limit})
        return [Claim._make(row) for row in rows]

    def unattended_claims(self, now_ms: int, limit: int) -> list[Claim]:
        rows = self._session.fetch_all("unattended_claims", {"now_ms": now_ms, "limit": limit})
        return [Claim._make(row) for row in rows]

    def claim_passes(self, claim: Claim) -> list[ClaimPass]:
        rows = self._session.fetch_all("claim_passes", _claim_key(claim))
        return [ClaimPass._make(row) for row in rows]

    def put_claim_pass(self, claim_pass: ClaimPass) -> None:
        self._write("put_claim_pass", claim_pass._asdict())

    def drop_claim_passes(self, claim: Claim) -> int:
        return self._change("drop_claim_passes", _claim_key(claim))

    def verifiers(self, since_ms: int, limit: int) -> dict[str, int]:
        rows = self._session.fetch_all("verifiers", {"since_ms": since_ms, "limit": limit})
        return {row[0]: row[1] for row in rows}

    def put_verifier(self, name: str, seen_at_ms: int) -> None:
        self._write("put_verifier", {"name": name, "seen_at_ms": seen_at_ms})

    def forget_verifier(self, name: str) -> None:
        self._write("forget_verifier", {"name": name})

    def forget_verifiers_before(self, seen_at_ms: int) -> None:
        self._write("forget_verifiers_before", {"seen_at_ms": seen_at_ms})

    def put_claim(self, claim: Claim) -> bool:
        return self._change("put_claim", claim._asdict()) == 1

    def mark_verdict_delivered(self, claim: Claim, now_ms: int) -> None:
        self._write("mark_verdict_delivered", {**_claim_key(claim), "heard_at_ms": now_ms})

    def amend_claim(self, claim: Claim) -> None:
        keys = ("swarm_id", "task_id", "claim_id", "words")
        columns = claim._asdict()
        self._write("amend_claim", {key: columns[key] for key in keys})

    def free_claims_of(self, verifier: str) -> int:
        return self._change("free_claims_of", {"taken_by": verifier})

    # -- ownership

    def hold_repo(self, repo: str) -> None:
        self._session.fetch_one("hold_repo", {"repo": repo})

    def reservations_of_repo(self, repo: str) -> list[Reservation]:
        rows = self._session.fetch_all("reservations_of_repo", {"repo": repo})
        return [_reservation(row) for row in rows]

    def has_reservation(self, swarm_id: str, task_id: str) -> bool:
        keys = {"swarm_id": swarm_id, "task_id": task_id}
        return self._session.fetch_one("has_reservation", keys) is not None

    def release_idle(self, swarm_id: str) -> int:
        return self._change("release_idle", {"swarm_id": swarm_id})

    def reserve(self, reservation: Reservation, at_ms: int) -> None:
        self._write(
            "reserve",
            reservation._asdict()
            | {"patterns": json.dumps(reservation.patterns), "reserved_at_ms": at_ms},
        )

    def release(self, swarm_id: str, task_id: str) -> None:
        self._write("release", {"swarm_id": swarm_id, "task_id": task_id})

    def scope_request(self, swarm_id: str, request_id: int) -> ScopeRequest | None:
        row = self._session.fetch_one(
            "scope_request", {"swarm_id": swarm_id, "request_id": request_id}
        )
        return None if row is None else to_scope_request(row)

    def scope_requests(self, swarm_id: str, limit: int, *, only_open: bool) -> list[ScopeRequest]:
        query = "open_scope_requests" if only_open else "newest_scope_requests"
        rows = self._session.fetch_all(query, {"swarm_id": swarm_id, "limit": limit})
        return [to_scope_request(row) for row in rows]

    def scope_request_of_question(self, swarm_id: str, question_id: int) -> ScopeRequest | None:
        row = self._session.fetch_one(
            "scope_request_of_question", {"swarm_id": swarm_id, "question_id": question_id}
        )
        return None if row is None else to_scope_request(row)

    def add_scope_request(self, request: ScopeRequest) -> int:
        self.wrote = True
        row = self._session.fetch_one(
            "add_scope_request", request._asdict() | {"paths": json.dumps(request.paths)}
        )
        assert row is not None, "INSERT ... RETURNING gives a row"
        return int(row[0])

    def decide_scope_request(self, request: ScopeRequest) -> bool:
        keys = ("swarm_id", "request_id", "state", "decided_at_ms", "decision")
        columns = request._asdict()
        return self._change("decide_scope_request", {key: columns[key] for key in keys}) == 1

    def waivers(self, swarm_id: str, task_id: str) -> list[Waiver]:
        rows = self._session.fetch_all("waivers", {"swarm_id": swarm_id, "task_id": task_id})
        return [
            Waiver(check=row[0], subject=row[1], reason=row[2], granted_by=row[3]) for row in rows
        ]

    def put_waiver(self, swarm_id: str, task_id: str, waiver: Waiver, at_ms: int) -> None:
        self._write(
            "put_waiver",
            {
                "swarm_id": swarm_id,
                "task_id": task_id,
                "check_name": waiver.check,
                "subject": waiver.subject,
                "reason": waiver.reason,
                "granted_by": waiver.granted_by,
                "at_ms": at_ms,
            },
        )

    def drop_waivers_of_check(self, swarm_id: str, task_id: str, check: CheckName) -> None:
        key = {"swarm_id": swarm_id, "task_id": task_id, "check_name": check}
        self._write("drop_waivers_of_check", key)

    # -- receipts and signals

    def add_receipt(self, receipt: ReceiptRow) -> None:
        self._write("add_receipt", receipt._asdict())

    def receipt_of_task(self, swarm_id: str, task_id: str) -> ReceiptRow | None:
        keys = {"swarm_id": swarm_id, "task_id": task_id}
        row = self._session.fetch_one("receipt_of_task", keys)
        return None if row is None else _receipt(row)

    def receipt(self, receipt_id: str) -> ReceiptRow | None:
        row = self._session.fetch_one("receipt", {"receipt_id": receipt_id})
        return None if row is None else _receipt(row)

    def swarms_with_receipt(self, task_id: str, limit: int) -> list[str]:
        rows = self._session.fetch_all("swarms_with_receipt", {"task_id": task_id, "limit": limit})
        return [row[0] for row in rows]

    def receipts_after(self, after: tuple[int, str], limit: int) -> list[ReceiptRow]:
        rows = self._session.fetch_all(
            "receipts_after", {"at_ms": after[0], "receipt_id": after[1], "limit": limit}
        )
        return [_receipt(row) for row in rows]

    def newest_planned_commits(self, repo_id: str, limit: int) -> list[str]:
        rows = self._session.fetch_all(
            "newest_planned_commits", {"repo_id": repo_id, "limit": limit}
        )
        return [row[0] for row in rows]

    def add_signal(self, signal: Signal) -> None:
        self._write("add_signal", signal._asdict())

    def signals(self, strategy: str, limit: int) -> list[Signal]:
        rows = self._session.fetch_all("newest_signals", {"strategy": strategy, "limit": limit})
        return [Signal._make(row) for row in rows]

    def strategies(self) -> list[StrategyRecord]:
        return [StrategyRecord(*row) for row in self._session.fetch_all("strategies", {})]

    def take_strategy(self, strategy: str) -> StrategyRecord | None:
        self.wrote = True
        row = self._session.fetch_one("take_strategy", {"strategy": strategy})
        return None if row is None else StrategyRecord(*row)

    def put_strategy(self, record: StrategyRecord) -> None:
        self._write("put_strategy", asdict(record))


def _held_out_key(handoff: Handoff) -> dict[str, object]:
    return {"swarm_id": handoff.swarm_id, "task_id": handoff.task_id, "hash": handoff.held_out}


def _reservation(row: Row) -> Reservation:
    return Reservation(row[0], row[1], row[2], json.loads(row[3]))


def _receipt(row: Row) -> ReceiptRow:
    return ReceiptRow._make((*row[:-1], bool(row[-1])))


def to_scope_request(row: Row) -> ScopeRequest:
    return ScopeRequest._make((*row[:5], json.loads(row[5]), *row[6:]))


def _claim_key(claim: Claim) -> dict[str, object]:
    return {
        "swarm_id": claim.swarm_id,
        "task_id": claim.task_id,
        "claim_id": claim.claim_id,
    }
