-- The queries that both dialects understand. Each is a primary-key or index look-up: none grows
-- with the number of stored events.

-- name: swarm
SELECT swarm_id, feature, manifest_path, auto_merge, notify_on_complete, workers_expected,
    created_at_ms, completed_at_ms
FROM swarms WHERE swarm_id = :swarm_id;

-- name: take_swarm
SELECT swarm_id, feature, manifest_path, auto_merge, notify_on_complete, workers_expected,
    created_at_ms, completed_at_ms
FROM swarms WHERE swarm_id = :swarm_id;

-- name: take_assignment
SELECT s.swarm_id, a.task_id, a.epoch, a.state, a.packet_id, a.worker, a.worktree,
    a.steps_total, a.steps_completed, a.retries_open, a.registered_at_ms, a.updated_at_ms,
    a.finished_at_ms, a.final_commit, a.tests_passed, a.review_passed, a.last_error,
    a.lease_expires_at_ms, a.lease_seconds, a.context_usage, a.current_step,
    a.commits, a.spec_path, a.contract_version, a.refusals, a.claim_id, a.received
FROM swarms AS s LEFT JOIN assignments AS a ON a.swarm_id = s.swarm_id AND a.task_id = :task_id
WHERE s.swarm_id = :swarm_id;

-- name: take_reported
-- The assignment and the event of an earlier delivery of the same report, in one query.
SELECT s.swarm_id, a.task_id, a.epoch, a.state, a.packet_id, a.worker, a.worktree,
    a.steps_total, a.steps_completed, a.retries_open, a.registered_at_ms, a.updated_at_ms,
    a.finished_at_ms, a.final_commit, a.tests_passed, a.review_passed, a.last_error,
    a.lease_expires_at_ms, a.lease_seconds, a.context_usage, a.current_step,
    a.commits, a.spec_path, a.contract_version, a.refusals, a.claim_id, a.received,
    e.swarm_id, e.event_id, e.kind, e.at_ms, e.data, e.actor
FROM swarms AS s LEFT JOIN assignments AS a ON a.swarm_id = s.swarm_id AND a.task_id = :task_id
    LEFT JOIN events AS e ON e.swarm_id = s.swarm_id AND e.task_id = :task_id
        AND e.report_key = :report_key
WHERE s.swarm_id = :swarm_id;

-- name: swarms_newest
SELECT swarm_id, feature, manifest_path, auto_merge, notify_on_complete, workers_expected,
    created_at_ms, completed_at_ms
FROM swarms ORDER BY created_at_ms DESC, swarm_id DESC LIMIT :limit;

-- name: swarms_before
SELECT swarm_id, feature, manifest_path, auto_merge, notify_on_complete, workers_expected,
    created_at_ms, completed_at_ms
FROM swarms WHERE (created_at_ms, swarm_id) < (:before_ms, :before_id)
ORDER BY created_at_ms DESC, swarm_id DESC LIMIT :limit;

-- name: add_swarm
INSERT INTO swarms (swarm_id, feature, manifest_path, auto_merge, notify_on_complete,
    workers_expected, created_at_ms, completed_at_ms)
VALUES (:swarm_id, :feature, :manifest_path, :auto_merge, :notify_on_complete,
    :workers_expected, :created_at_ms, :completed_at_ms)
ON CONFLICT (swarm_id) DO NOTHING;

-- name: set_swarm_completed
UPDATE swarms SET completed_at_ms = :completed_at_ms WHERE swarm_id = :swarm_id;

-- name: assignments
SELECT swarm_id, task_id, epoch, state, packet_id, worker, worktree, steps_total,
    steps_completed, retries_open, registered_at_ms, updated_at_ms, finished_at_ms,
    final_commit, tests_passed, review_passed, last_error, lease_expires_at_ms, lease_seconds,
    context_usage, current_step, commits, spec_path, contract_version, refusals, claim_id,
    received
FROM assignments WHERE swarm_id = :swarm_id AND packet_id IS NOT NULL ORDER BY packet_id;

-- name: assignment
SELECT swarm_id, task_id, epoch, state, packet_id, worker, worktree, steps_total,
    steps_completed, retries_open, registered_at_ms, updated_at_ms, finished_at_ms,
    final_commit, tests_passed, review_passed, last_error, lease_expires_at_ms, lease_seconds,
    context_usage, current_step, commits, spec_path, contract_version, refusals, claim_id,
    received
FROM assignments WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: state_counts
SELECT state, count(*) FROM assignments
WHERE swarm_id = :swarm_id AND packet_id IS NOT NULL GROUP BY state;

-- name: put_assignment
INSERT INTO assignments (swarm_id, task_id, epoch, state, packet_id, worker, worktree,
    steps_total, steps_completed, retries_open, registered_at_ms, updated_at_ms, finished_at_ms,
    final_commit, tests_passed, review_passed, last_error, lease_expires_at_ms, lease_seconds,
    context_usage, current_step, commits, spec_path, contract_version, refusals, claim_id,
    received)
VALUES (:swarm_id, :task_id, :epoch, :state, :packet_id, :worker, :worktree, :steps_total,
    :steps_completed, :retries_open, :registered_at_ms, :updated_at_ms, :finished_at_ms,
    :final_commit, :tests_passed, :review_passed, :last_error, :lease_expires_at_ms,
    :lease_seconds, :context_usage, :current_step, :commits, :spec_path,
    :contract_version, :refusals, :claim_id, :received)
ON CONFLICT (swarm_id, task_id) DO UPDATE SET epoch = excluded.epoch, state = excluded.state,
    worker = excluded.worker, worktree = excluded.worktree, steps_total = excluded.steps_total,
    steps_completed = excluded.steps_completed, retries_open = excluded.retries_open,
    registered_at_ms = excluded.registered_at_ms, updated_at_ms = excluded.updated_at_ms,
    finished_at_ms = excluded.finished_at_ms, final_commit = excluded.final_commit,
    tests_passed = excluded.tests_passed, review_passed = excluded.review_passed,
    last_error = excluded.last_error, lease_expires_at_ms = excluded.lease_expires_at_ms,
    lease_seconds = excluded.lease_seconds, context_usage = excluded.context_usage,
    current_step = excluded.current_step, commits = excluded.commits,
    spec_path = excluded.spec_path, contract_version = excluded.contract_version,
    refusals = excluded.refusals, claim_id = excluded.claim_id, received = excluded.received;

-- name: save_assignment
-- Guarded by the epoch: reports of an older attempt change nothing.
UPDATE assignments SET state = :state, steps_total = :steps_total,
    steps_completed = :steps_completed, retries_open = :retries_open,
    updated_at_ms = :updated_at_ms, finished_at_ms = :finished_at_ms,
    final_commit = :final_commit, tests_passed = :tests_passed, review_passed = :review_passed,
    last_error = :last_error, lease_expires_at_ms = :lease_expires_at_ms,
    lease_seconds = :lease_seconds, context_usage = :context_usage, current_step = :current_step,
    commits = :commits, contract_version = :contract_version, refusals = :refusals,
    claim_id = :claim_id
WHERE swarm_id = :swarm_id AND task_id = :task_id AND epoch = :epoch;

-- name: save_progress
-- What a progress report can change: the hot path writes only that.
UPDATE assignments SET state = :state, steps_total = :steps_total,
    steps_completed = :steps_completed, retries_open = :retries_open,
    updated_at_ms = :updated_at_ms
WHERE swarm_id = :swarm_id AND task_id = :task_id AND epoch = :epoch;

-- name: save_lease
-- What a poll, an acknowledgement or a heartbeat can change.
UPDATE assignments SET state = :state, updated_at_ms = :updated_at_ms,
    lease_expires_at_ms = :lease_expires_at_ms, lease_seconds = :lease_seconds,
    context_usage = :context_usage, current_step = :current_step, received = :received
WHERE swarm_id = :swarm_id AND task_id = :task_id AND epoch = :epoch;

-- name: add_event
INSERT INTO events (swarm_id, event_id, kind, at_ms, task_id, report_key, data, actor)
VALUES (:swarm_id, :event_id, :kind, :at_ms, :task_id, :report_key, :data, :actor);

-- name: last_event_id
SELECT max(event_id) FROM events WHERE swarm_id = :swarm_id;

-- name: event_of_report
SELECT swarm_id, event_id, kind, at_ms, data, actor FROM events
WHERE swarm_id = :swarm_id AND task_id = :task_id AND report_key = :report_key;

-- name: event_with_data
-- An event with the same data, whatever its key. Limited, so that a packet with many events does not
-- make the others wait.
SELECT swarm_id, event_id, kind, at_ms, data, actor FROM (
    SELECT swarm_id, event_id, kind, at_ms, data, actor FROM events
    WHERE swarm_id = :swarm_id AND task_id = :task_id AND report_key > :no_key
    LIMIT :limit) AS known
WHERE data = :data LIMIT 1;

-- name: last_event
SELECT swarm_id, event_id, kind, at_ms, data, actor FROM events
WHERE swarm_id = :swarm_id ORDER BY event_id DESC LIMIT 1;

-- name: events_after
SELECT swarm_id, event_id, kind, at_ms, data, actor FROM events
WHERE swarm_id = :swarm_id AND event_id > :event_id ORDER BY event_id LIMIT :limit;

-- name: event_bounds
-- Each bound is one look-up; together they would be a scan in SQLite.
SELECT (SELECT min(event_id) FROM events WHERE swarm_id = :swarm_id),
    (SELECT max(event_id) FROM events WHERE swarm_id = :swarm_id);

-- name: events_between
-- Ids have no gaps, so the range bounds what is read, however few events fit. The kinds are
-- between commas: there is no way to pass a list that both dialects know.
SELECT swarm_id, event_id, kind, at_ms, data, actor FROM events
WHERE swarm_id = :swarm_id AND event_id > :after AND event_id < :before
    AND (CAST(:task_id AS text) IS NULL OR task_id = :task_id)
    AND (CAST(:kinds AS text) IS NULL
        OR replace(CAST(:kinds AS text), ',' || kind || ',', '') <> :kinds)
ORDER BY event_id LIMIT :limit;

-- name: events_between_newest_first
SELECT swarm_id, event_id, kind, at_ms, data, actor FROM events
WHERE swarm_id = :swarm_id AND event_id > :after AND event_id < :before
    AND (CAST(:task_id AS text) IS NULL OR task_id = :task_id)
    AND (CAST(:kinds AS text) IS NULL
        OR replace(CAST(:kinds AS text), ',' || kind || ',', '') <> :kinds)
ORDER BY event_id DESC LIMIT :limit;

-- name: retry
SELECT swarm_id, task_id, step_id, retries_made, state, due_at_ms FROM retries
WHERE swarm_id = :swarm_id AND task_id = :task_id AND step_id = :step_id;

-- name: put_retry
INSERT INTO retries (swarm_id, task_id, step_id, retries_made, state, due_at_ms)
VALUES (:swarm_id, :task_id, :step_id, :retries_made, :state, :due_at_ms)
ON CONFLICT (swarm_id, task_id, step_id) DO UPDATE SET retries_made = excluded.retries_made,
    state = excluded.state, due_at_ms = excluded.due_at_ms;

-- name: open_retries
SELECT swarm_id, task_id, step_id, retries_made, state, due_at_ms FROM retries
WHERE swarm_id = :swarm_id AND state <> 'closed' ORDER BY due_at_ms, step_id;

-- name: close_retry
UPDATE retries SET state = 'closed' WHERE swarm_id = :swarm_id AND task_id = :task_id
    AND step_id = :step_id AND state <> 'closed';

-- name: close_retries
UPDATE retries SET state = 'closed' WHERE swarm_id = :swarm_id AND task_id = :task_id
    AND state <> 'closed';

-- name: forget_retries
DELETE FROM retries WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: due_retries
SELECT swarm_id, task_id, step_id, retries_made, state, due_at_ms FROM retries
WHERE state = 'scheduled' AND due_at_ms <= :now_ms ORDER BY due_at_ms LIMIT :limit;

-- name: next_retry_at_ms
SELECT min(due_at_ms) FROM retries WHERE state = 'scheduled';

-- name: delete_events
-- The oldest first, but never the newest: the next id continues from it.
DELETE FROM events WHERE swarm_id = :swarm_id AND event_id IN (
    SELECT event_id FROM events WHERE swarm_id = :swarm_id AND event_id <
        (SELECT max(event_id) FROM events WHERE swarm_id = :swarm_id)
    ORDER BY event_id LIMIT :limit);

-- name: delete_all_events
DELETE FROM events WHERE swarm_id = :swarm_id;

-- name: delete_swarm
-- Deletes assignments and retries, too.
DELETE FROM swarms WHERE swarm_id = :swarm_id;

-- name: hold_term
SELECT 1 FROM leadership WHERE term = :term;

-- name: latest_time_ms
-- A heartbeat adds no event: the assignments with a lease tell of it.
SELECT max(at_ms) FROM (
    SELECT (SELECT e.at_ms FROM events AS e WHERE e.swarm_id = s.swarm_id
        ORDER BY e.event_id DESC LIMIT 1) AS at_ms FROM swarms AS s
    UNION ALL
    SELECT updated_at_ms FROM assignments WHERE lease_expires_at_ms IS NOT NULL) AS times;

-- name: epoch_floor
SELECT coalesce(max(epoch_floor), 0) FROM restores;

-- name: add_restore
INSERT INTO restores (at_ms, backup, epoch_floor) VALUES (:at_ms, :backup, :epoch_floor);

-- name: highest_epoch
-- Only for restoring a backup: it reads every task.
SELECT coalesce(max(epoch), 0) FROM tasks;
