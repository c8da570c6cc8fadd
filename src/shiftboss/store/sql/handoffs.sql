-- Handoffs, claims, ownership, receipts and signals, for both dialects.

-- name: handoff
SELECT swarm_id, task_id, version, hash, body, repo, base_commit, branch, target, policy, strategy,
    reason, created_at_ms, said, repo_id, repo_name, ci, model,
    target_base, landing, review, held_out, planned
FROM handoffs WHERE swarm_id = :swarm_id AND task_id = :task_id
ORDER BY version DESC LIMIT 1;

-- name: handoff_version
SELECT swarm_id, task_id, version, hash, body, repo, base_commit, branch, target, policy, strategy,
    reason, created_at_ms, said, repo_id, repo_name, ci, model,
    target_base, landing, review, held_out, planned
FROM handoffs WHERE swarm_id = :swarm_id AND task_id = :task_id AND version = :version;

-- name: add_handoff
INSERT INTO handoffs (swarm_id, task_id, version, hash, body, repo, base_commit, branch, target,
    policy, strategy, reason, created_at_ms, said, repo_id,
    repo_name, ci, model, target_base, landing, review, held_out, planned)
VALUES (:swarm_id, :task_id, :version, :hash, :body, :repo, :base_commit, :branch, :target,
    :policy, :strategy, :reason, :created_at_ms, :said, :repo_id,
    :repo_name, :ci, :model, :target_base, :landing, :review, :held_out, :planned);

-- name: held_out_tests
SELECT body FROM held_out_tests
WHERE swarm_id = :swarm_id AND task_id = :task_id AND hash = :hash;

-- name: put_held_out_tests
-- The hash identifies the content, so that there is nothing to update.
INSERT INTO held_out_tests (swarm_id, task_id, hash, body)
VALUES (:swarm_id, :task_id, :hash, :body)
ON CONFLICT (swarm_id, task_id, hash) DO NOTHING;

-- name: mark_planned
UPDATE handoffs SET planned = :planned
WHERE swarm_id = :swarm_id AND task_id = :task_id AND version = :version;

-- name: claim
SELECT swarm_id, task_id, claim_id, epoch, worker, state, contract_version, words, asked_at_ms,
    tries, taken_by, taken_until_ms, verdict, ended_at_ms, heard_at_ms, taken_at_ms,
    escalated_at_ms
FROM claims WHERE swarm_id = :swarm_id AND task_id = :task_id AND claim_id = :claim_id;

-- name: last_claim
SELECT swarm_id, task_id, claim_id, epoch, worker, state, contract_version, words, asked_at_ms,
    tries, taken_by, taken_until_ms, verdict, ended_at_ms, heard_at_ms, taken_at_ms,
    escalated_at_ms
FROM claims WHERE swarm_id = :swarm_id AND task_id = :task_id ORDER BY claim_id DESC LIMIT 1;

-- name: claims_of_task
SELECT swarm_id, task_id, claim_id, epoch, worker, state, contract_version, words, asked_at_ms,
    tries, taken_by, taken_until_ms, verdict, ended_at_ms, heard_at_ms, taken_at_ms,
    escalated_at_ms
FROM claims WHERE swarm_id = :swarm_id AND task_id = :task_id
ORDER BY claim_id DESC LIMIT :limit;

-- name: next_claim
-- The oldest claim that no verifier has taken, or whose verifier was lost, and that this verifier
-- has not passed on lately.
SELECT c.swarm_id, c.task_id, c.claim_id, c.epoch, c.worker, c.state, c.contract_version, c.words,
    c.asked_at_ms, c.tries, c.taken_by, c.taken_until_ms, c.verdict, c.ended_at_ms, c.heard_at_ms,
    c.taken_at_ms, c.escalated_at_ms
FROM claims AS c WHERE c.ended_at_ms IS NULL
    AND (c.taken_until_ms IS NULL OR c.taken_until_ms <= :now_ms)
    AND NOT EXISTS (SELECT 1 FROM claim_passes AS p
        WHERE p.swarm_id = c.swarm_id AND p.task_id = c.task_id AND p.claim_id = c.claim_id
            AND p.verifier = :verifier AND p.again_at_ms > :now_ms)
ORDER BY c.asked_at_ms LIMIT 1;

-- name: next_claim_at_ms
-- When the verifier can take the first claim: at once (0), when the claim's verifier counts as lost,
-- or when this verifier, which has passed on it, should look again.
SELECT min(CASE WHEN p.again_at_ms > coalesce(c.taken_until_ms, 0) THEN p.again_at_ms
    ELSE coalesce(c.taken_until_ms, 0) END)
FROM claims AS c LEFT JOIN claim_passes AS p
    ON p.swarm_id = c.swarm_id AND p.task_id = c.task_id AND p.claim_id = c.claim_id
        AND p.verifier = :verifier
WHERE c.ended_at_ms IS NULL;

-- name: open_claims
-- In the order in which verifiers take them; of all swarms if `swarm_id` is empty.
SELECT c.swarm_id, c.task_id, c.claim_id, c.epoch, c.worker, c.state, c.contract_version, c.words,
    c.asked_at_ms, c.tries, c.taken_by, c.taken_until_ms, c.verdict, c.ended_at_ms, c.heard_at_ms,
    c.taken_at_ms, c.escalated_at_ms
FROM claims AS c
WHERE c.ended_at_ms IS NULL AND (:swarm_id = '' OR c.swarm_id = :swarm_id)
ORDER BY c.asked_at_ms, c.swarm_id, c.task_id LIMIT :limit;

-- name: escalated_claims
-- Those that no verifier can look at, while none does.
SELECT c.swarm_id, c.task_id, c.claim_id, c.epoch, c.worker, c.state, c.contract_version, c.words,
    c.asked_at_ms, c.tries, c.taken_by, c.taken_until_ms, c.verdict, c.ended_at_ms, c.heard_at_ms,
    c.taken_at_ms, c.escalated_at_ms
FROM claims AS c
WHERE c.ended_at_ms IS NULL AND c.swarm_id = :swarm_id AND c.escalated_at_ms IS NOT NULL
    AND c.state = 'waiting'
ORDER BY c.asked_at_ms, c.task_id LIMIT :limit;

-- name: unattended_claims
-- Those that nobody verifies and that no person has been told about.
SELECT c.swarm_id, c.task_id, c.claim_id, c.epoch, c.worker, c.state, c.contract_version, c.words,
    c.asked_at_ms, c.tries, c.taken_by, c.taken_until_ms, c.verdict, c.ended_at_ms, c.heard_at_ms,
    c.taken_at_ms, c.escalated_at_ms
FROM claims AS c
WHERE c.ended_at_ms IS NULL AND c.escalated_at_ms IS NULL
    AND (c.state = 'waiting' OR c.taken_until_ms <= :now_ms)
ORDER BY c.asked_at_ms LIMIT :limit;

-- name: claim_passes
SELECT swarm_id, task_id, claim_id, verifier, reason, times, passed_at_ms, again_at_ms, verdict
FROM claim_passes
WHERE swarm_id = :swarm_id AND task_id = :task_id AND claim_id = :claim_id
ORDER BY passed_at_ms DESC, verifier;

-- name: put_claim_pass
INSERT INTO claim_passes (swarm_id, task_id, claim_id, verifier, reason, times, passed_at_ms,
    again_at_ms, verdict)
VALUES (:swarm_id, :task_id, :claim_id, :verifier, :reason, :times, :passed_at_ms, :again_at_ms,
    :verdict)
ON CONFLICT (swarm_id, task_id, claim_id, verifier) DO UPDATE SET reason = excluded.reason,
    times = excluded.times, passed_at_ms = excluded.passed_at_ms,
    again_at_ms = excluded.again_at_ms, verdict = excluded.verdict;

-- name: drop_claim_passes
DELETE FROM claim_passes
WHERE swarm_id = :swarm_id AND task_id = :task_id AND claim_id = :claim_id;

-- name: verifiers
SELECT name, seen_at_ms FROM verifiers WHERE seen_at_ms >= :since_ms ORDER BY name LIMIT :limit;

-- name: put_verifier
INSERT INTO verifiers (name, seen_at_ms) VALUES (:name, :seen_at_ms)
ON CONFLICT (name) DO UPDATE SET seen_at_ms = excluded.seen_at_ms
WHERE verifiers.seen_at_ms < excluded.seen_at_ms;

-- name: forget_verifier
DELETE FROM verifiers WHERE name = :name;

-- name: forget_verifiers_before
DELETE FROM verifiers WHERE seen_at_ms < :seen_at_ms;

-- name: free_claims_of
-- A restarted server has lost the claims that it was verifying.
UPDATE claims SET state = 'waiting', taken_by = NULL, taken_until_ms = NULL, taken_at_ms = NULL
WHERE ended_at_ms IS NULL AND taken_by = :taken_by;

-- name: put_claim
INSERT INTO claims (swarm_id, task_id, claim_id, epoch, worker, state, contract_version, words,
    asked_at_ms, tries, taken_by, taken_until_ms, verdict, ended_at_ms, heard_at_ms, taken_at_ms,
    escalated_at_ms)
VALUES (:swarm_id, :task_id, :claim_id, :epoch, :worker, :state, :contract_version, :words,
    :asked_at_ms, :tries, :taken_by, :taken_until_ms, :verdict, :ended_at_ms, :heard_at_ms,
    :taken_at_ms, :escalated_at_ms)
ON CONFLICT (swarm_id, task_id, claim_id) DO UPDATE SET state = excluded.state,
    tries = excluded.tries, taken_by = excluded.taken_by,
    taken_until_ms = excluded.taken_until_ms, verdict = excluded.verdict,
    ended_at_ms = excluded.ended_at_ms, taken_at_ms = excluded.taken_at_ms,
    escalated_at_ms = excluded.escalated_at_ms
WHERE claims.ended_at_ms IS NULL;

-- name: mark_verdict_delivered
UPDATE claims SET heard_at_ms = :heard_at_ms
WHERE swarm_id = :swarm_id AND task_id = :task_id AND claim_id = :claim_id
    AND ended_at_ms IS NOT NULL AND heard_at_ms IS NULL;

-- name: amend_claim
-- The worker may return its summary after the server has claimed for it.
UPDATE claims SET words = :words
WHERE swarm_id = :swarm_id AND task_id = :task_id AND claim_id = :claim_id
    AND ended_at_ms IS NULL;

-- name: reservations_of_repo
SELECT swarm_id, task_id, repo, patterns FROM reservations WHERE repo = :repo
ORDER BY swarm_id, task_id;

-- name: reserve
INSERT INTO reservations (swarm_id, task_id, repo, patterns, reserved_at_ms)
VALUES (:swarm_id, :task_id, :repo, :patterns, :reserved_at_ms)
ON CONFLICT (swarm_id, task_id) DO UPDATE SET repo = excluded.repo, patterns = excluded.patterns;

-- name: release
DELETE FROM reservations WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: has_reservation
SELECT 1 FROM reservations WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: release_idle
-- The files of tasks that nobody works on.
DELETE FROM reservations WHERE swarm_id = :swarm_id AND task_id IN (
    SELECT t.task_id FROM tasks AS t
    WHERE t.swarm_id = :swarm_id AND t.status IN ('open', 'queued', 'failed'));

-- name: scope_request
SELECT swarm_id, request_id, task_id, epoch, worker, paths, reason, state, asked_at_ms,
    decided_at_ms, decision, question_id
FROM scope_requests WHERE swarm_id = :swarm_id AND request_id = :request_id;

-- name: open_scope_requests
-- Those whose question nobody has answered: it outlives an attempt that was parked.
SELECT asked.swarm_id, asked.request_id, asked.task_id, asked.epoch, asked.worker, asked.paths,
    asked.reason, asked.state, asked.asked_at_ms, asked.decided_at_ms, asked.decision,
    asked.question_id
FROM scope_requests AS asked
JOIN questions AS q ON q.swarm_id = asked.swarm_id AND q.question_id = asked.question_id
    AND q.answer IS NULL
WHERE asked.swarm_id = :swarm_id AND asked.state = 'open'
ORDER BY asked.request_id LIMIT :limit;

-- name: scope_request_of_question
SELECT swarm_id, request_id, task_id, epoch, worker, paths, reason, state, asked_at_ms,
    decided_at_ms, decision, question_id
FROM scope_requests
WHERE swarm_id = :swarm_id AND question_id = :question_id AND state = 'open' LIMIT 1;

-- name: newest_scope_requests
SELECT swarm_id, request_id, task_id, epoch, worker, paths, reason, state, asked_at_ms,
    decided_at_ms, decision, question_id
FROM scope_requests WHERE swarm_id = :swarm_id ORDER BY request_id DESC LIMIT :limit;

-- name: add_scope_request
INSERT INTO scope_requests (swarm_id, request_id, task_id, epoch, worker, paths, reason, state,
    asked_at_ms, decided_at_ms, decision, question_id)
VALUES (:swarm_id,
    (SELECT coalesce(max(request_id), 0) + 1 FROM scope_requests WHERE swarm_id = :swarm_id),
    :task_id, :epoch, :worker, :paths, :reason, :state, :asked_at_ms, :decided_at_ms, :decision,
    :question_id)
RETURNING request_id;

-- name: decide_scope_request
UPDATE scope_requests SET state = :state, decided_at_ms = :decided_at_ms, decision = :decision
WHERE swarm_id = :swarm_id AND request_id = :request_id AND state = 'open';

-- name: waivers
SELECT check_name, subject, reason, granted_by FROM waivers
WHERE swarm_id = :swarm_id AND task_id = :task_id ORDER BY check_name, subject;

-- name: put_waiver
INSERT INTO waivers (swarm_id, task_id, check_name, subject, reason, granted_by, at_ms)
VALUES (:swarm_id, :task_id, :check_name, :subject, :reason, :granted_by, :at_ms)
ON CONFLICT (swarm_id, task_id, check_name, subject) DO UPDATE SET reason = excluded.reason,
    granted_by = excluded.granted_by, at_ms = excluded.at_ms;

-- name: drop_waivers_of_check
DELETE FROM waivers
WHERE swarm_id = :swarm_id AND task_id = :task_id AND check_name = :check_name;

-- name: add_receipt
INSERT INTO receipts (receipt_id, swarm_id, task_id, title, body, accepted_at_ms, repo_id,
    commit_sha, planned)
VALUES (:receipt_id, :swarm_id, :task_id, :title, :body, :accepted_at_ms, :repo_id, :commit_sha,
    :planned)
ON CONFLICT (receipt_id) DO NOTHING;

-- name: receipt_of_task
SELECT receipt_id, swarm_id, task_id, title, body, accepted_at_ms, repo_id, commit_sha, planned
FROM receipts
WHERE swarm_id = :swarm_id AND task_id = :task_id ORDER BY accepted_at_ms DESC LIMIT 1;

-- name: receipt
SELECT receipt_id, swarm_id, task_id, title, body, accepted_at_ms, repo_id, commit_sha, planned
FROM receipts WHERE receipt_id = :receipt_id;

-- name: swarms_with_receipt
SELECT DISTINCT swarm_id FROM receipts WHERE task_id = :task_id ORDER BY swarm_id LIMIT :limit;

-- name: receipts_after
SELECT receipt_id, swarm_id, task_id, title, body, accepted_at_ms, repo_id, commit_sha, planned
FROM receipts
WHERE (accepted_at_ms, receipt_id) > (:at_ms, :receipt_id)
ORDER BY accepted_at_ms, receipt_id LIMIT :limit;

-- name: newest_planned_commits
SELECT commit_sha FROM receipts WHERE repo_id = :repo_id AND planned
ORDER BY accepted_at_ms DESC LIMIT :limit;

-- name: add_signal
INSERT INTO signals (strategy, at_ms, swarm_id, task_id, epoch, number, kind, impact,
    violation_type, details)
VALUES (:strategy, :at_ms, :swarm_id, :task_id, :epoch, :number, :kind, :impact, :violation_type,
    :details)
ON CONFLICT DO NOTHING;

-- name: newest_signals
SELECT strategy, at_ms, swarm_id, task_id, epoch, number, kind, impact, violation_type, details
FROM signals WHERE strategy = :strategy
ORDER BY at_ms DESC, swarm_id DESC, task_id DESC, epoch DESC, number DESC LIMIT :limit;

-- name: strategies
SELECT strategy, wins, losses, samples, updated_at_ms, disputes FROM strategies ORDER BY strategy;

-- name: put_strategy
INSERT INTO strategies (strategy, wins, losses, samples, updated_at_ms, disputes)
VALUES (:strategy, :wins, :losses, :samples, :updated_at_ms, :disputes)
ON CONFLICT (strategy) DO UPDATE SET wins = excluded.wins, losses = excluded.losses,
    samples = excluded.samples, updated_at_ms = excluded.updated_at_ms,
    disputes = excluded.disputes;
