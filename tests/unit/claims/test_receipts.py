"""Receipts: signed as a whole, verified without the server."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import assume, given
from hypothesis import strategies as st

from shiftboss.errors import InvalidReceipt
from shiftboss.evidence.keys import SigningKey
from shiftboss.evidence.receipt_verification import read_receipt, verify_receipt
from shiftboss.protocol.claims.receipts import (
    ReceiptBodyV1,
    ReceiptBodyV2,
    ReceiptBodyV3,
    ReceiptCanary,
    ReceiptCheck,
)
from shiftboss.protocol.claims.verdicts import (
    Canary,
    Change,
    CheckResult,
    Mutant,
    MutantTotals,
    TestTotals,
    Verdict,
    VerificationJob,
    Waiver,
)
from shiftboss.protocol.handoffs import (
    Context,
    Contract,
    Escalation,
    HeldOutTests,
    MutantsRequired,
    VerificationPolicy,
    WorkerHandoff,
    canonical_json,
    handoff_hash,
)
from shiftboss.rules.claims.held_out import UNSABOTAGED
from shiftboss.rules.claims.receipt_content import receipt_body

pytestmark = pytest.mark.requirement("OWN-02")

KEY = SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
OTHER_KEY = SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(32)))
BASE, COMMIT, TREE = "a" * 40, "b" * 40, "c" * 40

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def handoff(role: str = "Write the service") -> WorkerHandoff:
    return WorkerHandoff(
        contract=Contract(
            task_id="bd-123.2",
            files_owned=["src/grüße.py", "tests/**"],
            files_readonly=["src/types.py"],
            dependencies_completed=["bd-123.1"],
            success_criteria=["Tests pass: pytest", "It is fast"],
        ),
        context=Context(epic_summary="", your_role=role, what_others_did="", what_comes_next=""),
        escalation=Escalation(),
    )


def body(
    summary: str = "Done, “as agreed” ✓",
    more_checks: Sequence[CheckResult] = (),
    held_out: HeldOutTests | None = None,
    **changes: Any,
) -> ReceiptBodyV3:
    job = VerificationJob(
        swarm_id="s-1",
        bead_id="bd-123.2",
        epoch=2,
        claim_id=7,
        repo="/repo",
        base_commit=BASE,
        branch="work",
        target="main",
        commit=COMMIT,
        files_touched=[],
        contract=handoff().contract,
        contract_version=3,
        contract_hash=handoff_hash(handoff()),
        policy=VerificationPolicy(mutants=MutantsRequired(require=1)),
        held_out=held_out,
        waivers=[Waiver(check="scope", subject="x", reason="agreed", granted_by="operator")],
    )
    verdict = Verdict(
        accepted=True,
        base_commit=BASE,
        commit=COMMIT,
        tree=TREE,
        checks=[
            CheckResult(check="commit", outcome="passed", message="is there"),
            CheckResult(check="scope", outcome="waived", message="leaves the scope", subject="x"),
            CheckResult(
                check="criterion",
                outcome="passed",
                message="exit code 0",
                subject="Tests pass: pytest",
                exit_code=0,
                output_tail="1 passed, token=secret",
                duration_ms=40,
                sandbox="bubblewrap",
                tests=TestTotals(source="report", ran=3, passed=3, skipped=1),
            ),
            CheckResult(
                check="canary",
                outcome="passed",
                message="1 of 1",
                subject="Tests pass: pytest",
                canaries=[Canary(test="test_a", change="raise at the end", outcome="failed")],
            ),
            CheckResult(
                check="mutants",
                outcome="passed",
                message="1 of 2",
                subject="Tests pass: pytest",
                mutants=[
                    Mutant(path="src/a.py", line=3, change="< to <=", killed_by="test_a"),
                    Mutant(path="src/a.py", line=4, change="+ to -", killed_by=None),
                ],
            ),
            *more_checks,
        ],
        violations=[],
        changes=[Change(path="src/grüße.py", status="R", old_path="src/old.py", mode="100644")],
        files_changed=1,
        lines_added=3,
        target_commit="e" * 40,
        merged_from_target=["f" * 40],
        lines_deleted=1,
    )
    made = receipt_body(
        job,
        verdict,
        receipt_id="r-1",
        worker="bee",
        claimed_by=None,
        actor="alice",
        summary=summary,
        strategy="file-based",
        claimed_at="2026-01-05T10:00:00Z",
        verified_at="2026-01-05T10:00:05Z",
        accepted_at="2026-01-05T10:00:05Z",
        server_version="1.0",
    )
    return made.model_copy(update=changes)


SIGNED = KEY.sign(body())
UNNOTICED = ReceiptCanary(test="test_a", change="an expected value", outcome="passed")


def with_counts(**changes: dict[str, Any]) -> ReceiptCheck:
    """A check with one member of its tests, canaries or mutants changed."""
    ((name, members),) = changes.items()
    whole = next(check for check in body().checks if getattr(check, name) is not None)
    return whole.model_copy(update={name: getattr(whole, name).model_copy(update=members)})


TEXT = canonical_json(SIGNED)


def check(text: bytes, public_pem: str = KEY.public_pem) -> None:
    verify_receipt(read_receipt(text), public_pem)


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The path to every member and element, at any depth."""
    inner: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    below = [place for key, part in inner for place in places(part, (*path, key))]
    return ([path] if path else []) + below


def at(place: tuple[str | int, ...], value: Any) -> Any:
    for key in place:
        value = value[key]
    return value


PLACES = places(json.loads(TEXT))
HOLDERS = [(), *(place for place in PLACES if isinstance(at(place, json.loads(TEXT)), dict | list))]


def test_a_receipt_stays_valid_through_serialization() -> None:
    check(TEXT)
    check(json.dumps(json.loads(TEXT), indent=2).encode())
    assert read_receipt(TEXT) == SIGNED
    verify_receipt(SIGNED, KEY.public_pem, handoff())


@given(TEXTS)
def test_any_text_can_be_signed(summary: str) -> None:
    check(canonical_json(KEY.sign(body(summary))))


@given(st.integers(0, len(TEXT) - 1), st.integers(0, 255))
def test_no_byte_can_be_replaced(place: int, byte: int) -> None:
    assume(TEXT[place] != byte)
    with pytest.raises(InvalidReceipt):
        check(TEXT[:place] + bytes([byte]) + TEXT[place + 1 :])


@pytest.mark.parametrize("bit", range(8))
def test_no_bit_of_the_signature_can_be_flipped(bit: int) -> None:
    """Its last characters contain unused bits."""
    start = TEXT.index(SIGNED.signature.encode())
    for place in range(start, start + len(SIGNED.signature)):
        changed = bytearray(TEXT)
        changed[place] ^= 1 << bit
        with pytest.raises(InvalidReceipt):
            check(bytes(changed))


@given(st.sampled_from(PLACES), JSON_VALUES)
def test_no_member_can_be_changed(place: tuple[str | int, ...], value: Any) -> None:
    changed, holder = changeable(place)
    assume(canonical_json(holder[place[-1]]) != canonical_json(value))
    holder[place[-1]] = value
    with pytest.raises(InvalidReceipt):
        check(canonical_json(changed))


@pytest.mark.parametrize("place", PLACES)
def test_no_member_can_be_removed(place: tuple[str | int, ...]) -> None:
    changed, holder = changeable(place)
    del holder[place[-1]]
    with pytest.raises(InvalidReceipt):
        check(canonical_json(changed))


@pytest.mark.parametrize("place", HOLDERS)
def test_no_member_can_be_added(place: tuple[str | int, ...]) -> None:
    changed = json.loads(TEXT)
    holder = at(place, changed)
    if isinstance(holder, dict):
        holder["extra"] = None
    else:
        holder.append(holder[0] if holder else "x")
    with pytest.raises(InvalidReceipt):
        check(canonical_json(changed))


def changeable(place: tuple[str | int, ...]) -> tuple[Any, Any]:
    """A copy of the receipt, and the container of the place in it."""
    changed = json.loads(TEXT)
    return changed, at(place[:-1], changed)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (TEXT.replace(b'"epoch":2', b'"epoch":1,"epoch":2'), "'epoch' twice"),
        (TEXT.replace(b'{"algorithm"', b'{"receipt":{},"algorithm"'), "'receipt' twice"),
        (TEXT.replace(b'"epoch":2', b'"epoch":2.0'), "epoch"),
        (TEXT.replace(b'"epoch":2', b'"epoch":true'), "epoch"),
        (TEXT.replace(b'"epoch":2', b'"epoch":NaN'), "NaN is not JSON"),
        (TEXT.replace(b'"epoch":2', b'"epoch":' + b"9" * 5000), "not a receipt"),
        (TEXT.replace(b"shiftboss-receipt/3", b"shiftboss-receipt/1"), "not a receipt"),
        (TEXT.replace(b"shiftboss-receipt/3", b"shiftboss-receipt/2"), "not a receipt"),
        (TEXT.replace(b"shiftboss-receipt/3", b"shiftboss-receipt/4"), "receipt: .*format"),
        (TEXT.replace(b'"bee"', rb'"\ud800"'), "not a receipt"),
        (TEXT.replace(b'"bee"', b'"\xff"'), "not a receipt"),
        (b"[" * 100_000, "not a receipt"),
        (b"", "not a receipt"),
        (b"null", "not a receipt"),
        (b"\xef\xbb\xbf" + TEXT, "not a receipt"),
    ],
)
def test_malformed_receipts_are_refused(text: bytes, complaint: str) -> None:
    assert text != TEXT
    with pytest.raises(InvalidReceipt, match=complaint):
        read_receipt(text)


def test_verification_with_another_key_fails() -> None:
    with pytest.raises(InvalidReceipt, match="names the key") as refused:
        verify_receipt(SIGNED, OTHER_KEY.public_pem)
    assert refused.value.field == "key_id"
    renamed = SIGNED.model_copy(update={"key_id": OTHER_KEY.key_id})
    with pytest.raises(InvalidReceipt, match="signature is wrong"):
        verify_receipt(renamed, OTHER_KEY.public_pem)


@pytest.mark.parametrize("pem", ["", "no key", KEY.public_pem[:60], "x25519"])
def test_only_an_ed25519_key_can_verify(pem: str) -> None:
    if pem == "x25519":
        public = X25519PrivateKey.from_private_bytes(bytes(32)).public_key()
        pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    with pytest.raises(InvalidReceipt, match="not an Ed25519 public key"):
        verify_receipt(SIGNED, pem)


def test_the_signature_covers_the_name_of_the_format() -> None:
    """Anybody can verify it with other tools: these are the bytes."""
    key = Ed25519PrivateKey.from_private_bytes(bytes(range(32))).public_key()
    receipt = json.dumps(
        json.loads(TEXT)["receipt"], sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    signature = base64.b64decode(SIGNED.signature)
    key.verify(signature, b"shiftboss-receipt/3\n" + receipt.encode())
    assert SIGNED.key_id == hashlib.sha256(key.public_bytes_raw()).hexdigest()[:16]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"bead_id": "bd-9"}, "contract"),
        ({"commit": BASE}, "commit"),
        ({"waivers": []}, "waivers"),
        ({"accepted_at": "2026-01-05T09:00:00Z"}, "accepted_at"),
        ({"diff": body().diff.model_copy(update={"files_changed": 0})}, "diff"),
        ({"checks": [body().checks[0].model_copy(update={"outcome": "failed"})]}, "checks"),
        ({"checks": [with_counts(tests={"passed": 4})]}, "checks"),
        ({"checks": [with_counts(canaries={"failed": 2})]}, "checks"),
        ({"checks": [with_counts(canaries={"total": 0, "failed": 0})]}, "checks"),
        ({"checks": [with_counts(canaries={"listed": [UNNOTICED]})]}, "checks"),
        ({"checks": [with_counts(mutants={"killed": 3})]}, "checks"),
        ({"checks": [with_counts(mutants={"total": 1, "killed": 1})]}, "checks"),
    ],
)
def test_a_receipt_that_contradicts_itself_is_invalid(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidReceipt, match="contradicts itself") as refused:
        verify_receipt(KEY.sign(body(**changes)), KEY.public_pem)
    assert refused.value.field == field


def test_only_a_task_that_owns_no_files_may_have_no_commit_of_its_own() -> None:
    contract = handoff().contract.model_copy(update={"files_owned": []})
    signed = KEY.sign(body(commit=BASE, contract=contract))
    verify_receipt(signed, KEY.public_pem)


def test_the_handoff_must_match_the_receipt() -> None:
    with pytest.raises(InvalidReceipt, match="about another handoff"):
        verify_receipt(SIGNED, KEY.public_pem, handoff("Something else"))


def test_the_output_of_a_command_is_only_hashed() -> None:
    tail = "1 passed, token=secret"
    assert tail.encode() not in TEXT
    assert SIGNED.receipt.checks[2].output_sha256 == hashlib.sha256(tail.encode()).hexdigest()
    assert SIGNED.receipt.checks[0].output_sha256 is None


def test_a_receipt_of_format_1_is_still_verified() -> None:
    """The file was written by a version that knew no other format."""
    text = (Path(__file__).parent / "receipt_format_1.json").read_bytes()
    check(text)
    assert isinstance(read_receipt(text).receipt, ReceiptBodyV1)
    for changed in (
        text.replace(b"shiftboss-receipt/1", b"shiftboss-receipt/2"),
        text.replace(b'"epoch": 2', b'"epoch": 3'),
        text.replace(b'"epoch": 2', b'"policy": {}, "epoch": 2'),
    ):
        assert changed != text
        with pytest.raises(InvalidReceipt):
            check(changed)


def test_a_receipt_of_format_2_is_still_verified() -> None:
    """The file was written by a version that knew no actors."""
    text = (Path(__file__).parent / "receipt_format_2.json").read_bytes()
    check(text)
    assert isinstance(read_receipt(text).receipt, ReceiptBodyV2)
    for changed in (
        text.replace(b"shiftboss-receipt/2", b"shiftboss-receipt/3"),
        text.replace(b'"epoch": 2', b'"epoch": 3'),
        text.replace(b'"epoch": 2', b'"actor": "alice", "epoch": 2'),
    ):
        assert changed != text
        with pytest.raises(InvalidReceipt):
            check(changed)


@pytest.mark.requirement("OWN-13")
def test_the_receipt_records_how_the_proof_was_tested() -> None:
    assert isinstance(SIGNED.receipt, ReceiptBodyV3)
    members = json.loads(TEXT)["receipt"]
    assert members["policy"] == json.loads(
        VerificationPolicy(mutants=MutantsRequired(require=1)).model_dump_json()
    )
    recorded = members["checks"][2]
    assert recorded["sandbox"] == "bubblewrap"
    assert recorded["tests"] == {"source": "report", "ran": 3, "passed": 3, "skipped": 1}
    assert (recorded["canaries"], recorded["mutants"]) == (None, None)
    assert members["checks"][3]["canaries"] == {
        "total": 1,
        "failed": 1,
        "listed": [{"test": "test_a", "change": "raise at the end", "outcome": "failed"}],
    }
    assert members["checks"][4]["mutants"] == {
        "total": 2,
        "killed": 1,
        "listed": [
            {"path": "src/a.py", "line": 4, "change": "+ to -", "killed_by": None},
            {"path": "src/a.py", "line": 3, "change": "< to <=", "killed_by": "test_a"},
        ],
    }


@pytest.mark.requirement("OWN-13")
def test_a_receipt_lists_fifty_canaries_and_mutants_and_counts_all() -> None:
    many = CheckResult(
        check="canary",
        outcome="passed",
        message="",
        canaries=[Canary(test="t" * 1000, change="c", outcome="failed")] * 60,
        mutants=[
            Mutant(path="a.py", line=line, change="c", killed_by="t" if line < 60 else None)
            for line in range(70)
        ],
    )
    counted = many.model_copy(update={"mutant_totals": MutantTotals(tried=200, killed=180)})
    assert (listed := body(more_checks=[counted]).checks[-1].mutants) is not None
    assert (listed.total, listed.killed, len(listed.listed)) == (200, 180, 50)
    recorded = body(more_checks=[many]).checks[-1]
    assert recorded.canaries is not None
    assert recorded.mutants is not None
    assert (recorded.canaries.total, recorded.canaries.failed) == (60, 60)
    assert [len(canary.test) for canary in recorded.canaries.listed] == [300] * 50
    assert (recorded.mutants.total, recorded.mutants.killed) == (70, 60)
    assert [mutant.line for mutant in recorded.mutants.listed] == [*range(60, 70), *range(40)]


@pytest.mark.requirement("OWN-13", "OWN-14")
@pytest.mark.parametrize("criterion", [None, "Tests pass: pytest tests/secret"])
def test_a_receipt_does_not_tell_what_held_out_tests_are(criterion: str | None) -> None:
    held_out = HeldOutTests(files={"tests/secret/test_x.py": "assert f(7) == 9\n"})
    held_out = held_out.model_copy(update={"criterion": criterion})
    result = CheckResult(
        check="held_out",
        outcome="passed",
        message="tests/secret/test_x.py passed",
        subject=criterion or "Tests pass: pytest",
        exit_code=0,
        output_tail="tests/secret/test_x.py",
        tests=TestTotals(source="report", ran=4, passed=4),
        canaries=[Canary(test="tests/secret/test_x.py", change="secret", outcome="failed")],
    )
    signed = KEY.sign(body(more_checks=[result], held_out=held_out))
    verify_receipt(signed, KEY.public_pem)
    assert b"secret" not in canonical_json(signed)
    recorded = canonical_json(signed.receipt.checks[-1])
    expected = hashlib.sha256(canonical_json(held_out)).hexdigest()
    assert json.loads(recorded)["held_out_sha256"] == expected
    assert json.loads(recorded)["tests"]["ran"] == 4
    assert signed.receipt.checks[-1].subject == (None if criterion else "Tests pass: pytest")


@pytest.mark.requirement("OWN-13", "OWN-14")
def test_a_receipt_says_why_held_out_tests_are_unverifiable() -> None:
    message = f"secret.py passed; {UNSABOTAGED}"
    result = CheckResult(check="held_out", outcome="unverifiable", message=message)
    recorded = body(more_checks=[result]).checks[-1]
    assert recorded.message == UNSABOTAGED


@given(JSON_VALUES)
def test_canonical_json_keeps_the_value_and_is_deterministic(value: Any) -> None:
    text = canonical_json(value)
    assert json.loads(text) == value
    assert canonical_json(json.loads(text)) == text


@given(st.dictionaries(TEXTS, st.integers(), max_size=6), st.randoms())
def test_canonical_json_does_not_depend_on_key_order(value: dict[str, int], random: Any) -> None:
    members = list(value.items())
    random.shuffle(members)
    assert canonical_json(dict(members)) == canonical_json(value)


def test_signatures_are_deterministic() -> None:
    """A repeated use case must give the same answer."""
    assert KEY.sign(body()) == SIGNED
