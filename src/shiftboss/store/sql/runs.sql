-- Usage, budgets, holds, landings and reviews, for both dialects.

-- name: process_usage
SELECT swarm_id, task_id, epoch, process, input_tokens, output_tokens, cached_tokens, microdollars,
    at_ms
FROM process_usage
WHERE swarm_id = :swarm_id AND task_id = :task_id AND epoch = :epoch AND process = :process;

-- name: put_process_usage
INSERT INTO process_usage (swarm_id, task_id, epoch, process, input_tokens, output_tokens,
    cached_tokens, microdollars, at_ms)
VALUES (:swarm_id, :task_id, :epoch, :process, :input_tokens, :output_tokens,
    :cached_tokens, :microdollars, :at_ms)
ON CONFLICT (swarm_id, task_id, epoch, process) DO UPDATE SET
    input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens,
    cached_tokens = excluded.cached_tokens, microdollars = excluded.microdollars,
    at_ms = excluded.at_ms;

-- name: usage_totals
SELECT input_tokens, output_tokens, cached_tokens, microdollars, unpriced_tokens
FROM usage_totals WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: usage_after
-- Only tasks, by id; without the row of the whole swarm.
SELECT task_id, input_tokens, output_tokens, cached_tokens, microdollars, unpriced_tokens
FROM usage_totals
WHERE swarm_id = :swarm_id AND task_id > :task_id ORDER BY task_id LIMIT :limit;

-- name: put_usage_totals
INSERT INTO usage_totals (swarm_id, task_id, input_tokens, output_tokens, cached_tokens,
    microdollars, unpriced_tokens)
VALUES (:swarm_id, :task_id, :input_tokens, :output_tokens, :cached_tokens,
    :microdollars, :unpriced_tokens)
ON CONFLICT (swarm_id, task_id) DO UPDATE SET
    input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens,
    cached_tokens = excluded.cached_tokens, microdollars = excluded.microdollars,
    unpriced_tokens = excluded.unpriced_tokens;

-- name: budget
SELECT swarm_id, task_id, tokens, microdollars, by_operator, question_id
FROM budgets WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: put_budget
INSERT INTO budgets (swarm_id, task_id, tokens, microdollars, by_operator, question_id)
VALUES (:swarm_id, :task_id, :tokens, :microdollars, :by_operator, :question_id)
ON CONFLICT (swarm_id, task_id) DO UPDATE SET tokens = excluded.tokens,
    microdollars = excluded.microdollars, by_operator = excluded.by_operator,
    question_id = excluded.question_id;

-- name: holds_of_task
-- The holds of the task and of the whole swarm, which come first.
SELECT swarm_id, task_id, kind, reason, since_ms, until_ms FROM holds
WHERE swarm_id = :swarm_id AND task_id IN ('', :task_id) ORDER BY task_id, kind;

-- name: holds_of_swarm
SELECT swarm_id, task_id, kind, reason, since_ms, until_ms FROM holds
WHERE swarm_id = :swarm_id ORDER BY task_id, kind LIMIT :limit;

-- name: open_holds
-- Without those of tasks that are over. They count again if such a task is brought back.
SELECT h.swarm_id, h.task_id, h.kind, h.reason, h.since_ms, h.until_ms FROM holds AS h
WHERE h.swarm_id = :swarm_id AND NOT EXISTS (
    SELECT 1 FROM tasks AS t WHERE t.swarm_id = h.swarm_id AND t.task_id = h.task_id
        AND t.status IN ('done', 'cancelled'))
ORDER BY h.task_id, h.kind LIMIT :limit;

-- name: put_hold
INSERT INTO holds (swarm_id, task_id, kind, reason, since_ms, until_ms)
VALUES (:swarm_id, :task_id, :kind, :reason, :since_ms, :until_ms)
ON CONFLICT (swarm_id, task_id, kind) DO UPDATE SET reason = excluded.reason,
    until_ms = excluded.until_ms;

-- name: drop_hold
DELETE FROM holds WHERE swarm_id = :swarm_id AND task_id = :task_id AND kind = :kind;

-- name: ended_holds
SELECT swarm_id, task_id, kind, reason, since_ms, until_ms FROM holds
WHERE until_ms <= :now_ms ORDER BY until_ms LIMIT :limit;

-- name: next_hold_end_at_ms
SELECT min(until_ms) FROM holds WHERE until_ms IS NOT NULL;

-- name: landing
SELECT swarm_id, task_id, receipt_id, commit_sha, accepted_at_ms, target, landed_commit,
    landed_at_ms
FROM landings WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: put_landing
INSERT INTO landings (swarm_id, task_id, receipt_id, commit_sha, accepted_at_ms, target,
    landed_commit, landed_at_ms)
VALUES (:swarm_id, :task_id, :receipt_id, :commit_sha, :accepted_at_ms, :target,
    :landed_commit, :landed_at_ms)
ON CONFLICT (swarm_id, task_id) DO UPDATE SET receipt_id = excluded.receipt_id,
    commit_sha = excluded.commit_sha, accepted_at_ms = excluded.accepted_at_ms,
    target = excluded.target, landed_commit = excluded.landed_commit,
    landed_at_ms = excluded.landed_at_ms;

-- name: landings_to_come
SELECT swarm_id, task_id, receipt_id, commit_sha, accepted_at_ms, target, landed_commit,
    landed_at_ms
FROM landings WHERE swarm_id = :swarm_id AND landed_commit IS NULL
    AND (accepted_at_ms, receipt_id) > (:accepted_at_ms, :receipt_id)
ORDER BY accepted_at_ms, receipt_id LIMIT :limit;

-- name: landing_counts
-- How many tasks of the swarm are accepted, and how many of them have not landed.
SELECT coalesce((SELECT total FROM swarm_totals
        WHERE swarm_id = :swarm_id AND what = 'accepted'), 0),
    (SELECT count(*) FROM landings WHERE swarm_id = :swarm_id AND landed_commit IS NULL);

-- name: open_counts
-- What waits for a person: questions, requests for files, holds, reviews, refused starts,
-- claims that no verifier can look at.
SELECT (SELECT count(*) FROM questions WHERE swarm_id = :swarm_id AND answer IS NULL),
    (SELECT count(*) FROM scope_requests AS asked
        JOIN questions AS q ON q.swarm_id = asked.swarm_id AND q.question_id = asked.question_id
            AND q.answer IS NULL
        WHERE asked.swarm_id = :swarm_id AND asked.state = 'open'),
    (SELECT count(*) FROM holds AS h
        WHERE h.swarm_id = :swarm_id AND CASE
            WHEN h.task_id = '' THEN
                NOT EXISTS (SELECT 1 FROM tasks AS t WHERE t.swarm_id = :swarm_id)
                OR EXISTS (SELECT 1 FROM tasks AS t WHERE t.swarm_id = :swarm_id
                    AND t.status IN ('open', 'queued', 'active', 'failed'))
            ELSE NOT EXISTS (SELECT 1 FROM tasks AS t WHERE t.swarm_id = :swarm_id
                AND t.task_id = h.task_id AND t.status IN ('done', 'cancelled'))
            END),
    (SELECT count(*) FROM reviews WHERE swarm_id = :swarm_id AND state = 'open'),
    (SELECT count(*) FROM spawn_refusals WHERE swarm_id = :swarm_id),
    (SELECT count(*) FROM claims WHERE swarm_id = :swarm_id AND ended_at_ms IS NULL
        AND state = 'waiting' AND escalated_at_ms IS NOT NULL);

-- name: plan_run
SELECT swarm_id, plan_file, started_at_ms, auto_merge FROM plan_runs WHERE swarm_id = :swarm_id;

-- name: put_plan_run
INSERT INTO plan_runs (swarm_id, plan_file, started_at_ms, auto_merge)
VALUES (:swarm_id, :plan_file, :started_at_ms, :auto_merge)
ON CONFLICT (swarm_id) DO UPDATE SET plan_file = excluded.plan_file,
    started_at_ms = excluded.started_at_ms, auto_merge = excluded.auto_merge;

-- name: spawn_refusal
SELECT swarm_id, task_id, code, detail, holders, at_ms FROM spawn_refusals
WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: spawn_refusals
SELECT swarm_id, task_id, code, detail, holders, at_ms FROM spawn_refusals
WHERE swarm_id = :swarm_id ORDER BY task_id LIMIT :limit;

-- name: put_spawn_refusal
INSERT INTO spawn_refusals (swarm_id, task_id, code, detail, holders, at_ms)
VALUES (:swarm_id, :task_id, :code, :detail, :holders, :at_ms)
ON CONFLICT (swarm_id, task_id) DO UPDATE SET code = excluded.code, detail = excluded.detail,
    holders = excluded.holders, at_ms = excluded.at_ms;

-- name: drop_spawn_refusal
DELETE FROM spawn_refusals WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: drop_landing
DELETE FROM landings
WHERE swarm_id = :swarm_id AND task_id = :task_id AND landed_commit IS NULL;

-- name: review
SELECT swarm_id, task_id, receipt_id, commit_sha, state, requested_at_ms, decided_by,
    decided_at_ms, reason
FROM reviews WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: put_review
INSERT INTO reviews (swarm_id, task_id, receipt_id, commit_sha, state, requested_at_ms, decided_by,
    decided_at_ms, reason)
VALUES (:swarm_id, :task_id, :receipt_id, :commit_sha, :state, :requested_at_ms, :decided_by,
    :decided_at_ms, :reason)
ON CONFLICT (swarm_id, task_id) DO UPDATE SET receipt_id = excluded.receipt_id,
    commit_sha = excluded.commit_sha, state = excluded.state,
    requested_at_ms = excluded.requested_at_ms, decided_by = excluded.decided_by,
    decided_at_ms = excluded.decided_at_ms, reason = excluded.reason;

-- name: rejections
SELECT commit_sha, tree_sha, reason, rejected_by FROM rejections
WHERE swarm_id = :swarm_id AND task_id = :task_id
ORDER BY at_ms DESC, commit_sha LIMIT :limit;

-- name: put_rejection
INSERT INTO rejections (swarm_id, task_id, commit_sha, tree_sha, reason, rejected_by, at_ms)
VALUES (:swarm_id, :task_id, :commit_sha, :tree_sha, :reason, :rejected_by, :at_ms)
ON CONFLICT (swarm_id, task_id, commit_sha) DO UPDATE SET reason = excluded.reason,
    rejected_by = excluded.rejected_by, at_ms = excluded.at_ms;
