-- The bus. The first statement of a writing use case locks the swarm, as with packets.

-- name: task
SELECT swarm_id, task_id, title, description, priority, status, waits_for, queue_number, epoch,
    worker, checkpoint, last_error, created_at_ms, updated_at_ms, failures, contract_version
FROM tasks WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: swarms_of_task
SELECT swarm_id, status FROM tasks WHERE task_id = :task_id ORDER BY swarm_id LIMIT :limit;

-- name: task_counts
-- What is over is not counted: triggers keep its number.
SELECT status, count(*) FROM tasks
WHERE swarm_id = :swarm_id AND status IN ('open', 'queued', 'active') GROUP BY status
UNION ALL
SELECT what, total FROM swarm_totals
WHERE swarm_id = :swarm_id AND what <> 'accepted' AND total > 0;

-- name: tasks_with_status
SELECT swarm_id, task_id, title, description, priority, status, waits_for, queue_number, epoch,
    worker, checkpoint, last_error, created_at_ms, updated_at_ms, failures, contract_version
FROM tasks WHERE swarm_id = :swarm_id AND status = :status ORDER BY task_id LIMIT :limit;

-- name: waiting_for_cancelled
-- The open tasks that wait for a cancelled one, with that one. CROSS JOIN fixes the order of the
-- tables: the cancelled tasks are found in an index.
SELECT t.task_id, c.task_id
FROM tasks AS c CROSS JOIN task_dependencies AS d CROSS JOIN tasks AS t
WHERE c.swarm_id = :swarm_id AND c.status = 'cancelled'
    AND d.swarm_id = :swarm_id AND d.depends_on = c.task_id
    AND t.swarm_id = :swarm_id AND t.task_id = d.task_id AND t.status IN ('open', 'queued')
ORDER BY c.task_id, t.task_id LIMIT :limit;

-- name: waiting_for_cancelled_count
-- How many these are. The search is the same.
SELECT count(*)
FROM tasks AS c CROSS JOIN task_dependencies AS d CROSS JOIN tasks AS t
WHERE c.swarm_id = :swarm_id AND c.status = 'cancelled'
    AND d.swarm_id = :swarm_id AND d.depends_on = c.task_id
    AND t.swarm_id = :swarm_id AND t.task_id = d.task_id AND t.status IN ('open', 'queued');

-- name: tasks_after
SELECT swarm_id, task_id, title, description, priority, status, waits_for, queue_number, epoch,
    worker, checkpoint, last_error, created_at_ms, updated_at_ms, failures, contract_version
FROM tasks WHERE swarm_id = :swarm_id AND task_id > :task_id ORDER BY task_id LIMIT :limit;

-- name: next_task
-- The task to hand out next.
SELECT swarm_id, task_id, title, description, priority, status, waits_for, queue_number, epoch,
    worker, checkpoint, last_error, created_at_ms, updated_at_ms, failures, contract_version
FROM tasks WHERE swarm_id = :swarm_id AND status = 'queued' AND waits_for = 0
    -- Nothing is handed out in a chain that is halted.
    AND (contract_version IS NULL OR NOT EXISTS (
        SELECT 1 FROM repo_locks AS l JOIN halted_repos AS h ON h.repo = l.repo
        WHERE l.swarm_id = tasks.swarm_id AND l.task_id = tasks.task_id))
    -- Nor a task that is held back.
    AND NOT EXISTS (SELECT 1 FROM holds AS w
        WHERE w.swarm_id = tasks.swarm_id AND w.task_id = tasks.task_id)
ORDER BY priority DESC, queue_number, task_id
-- Nothing of a swarm on hold. A separate query, because a condition would run for every task.
LIMIT CASE WHEN EXISTS (
    SELECT 1 FROM holds WHERE swarm_id = :swarm_id AND task_id = '') THEN 0 ELSE 1 END;

-- name: add_task
INSERT INTO tasks (swarm_id, task_id, title, description, priority, status, waits_for,
    queue_number, epoch, worker, checkpoint, last_error, created_at_ms, updated_at_ms,
    failures, contract_version)
VALUES (:swarm_id, :task_id, :title, :description, :priority, :status, :waits_for,
    :queue_number, :epoch, :worker, :checkpoint, :last_error, :created_at_ms, :updated_at_ms,
    :failures, :contract_version);

-- name: save_task
UPDATE tasks SET status = :status, waits_for = :waits_for, queue_number = :queue_number,
    epoch = :epoch, worker = :worker, checkpoint = :checkpoint, last_error = :last_error,
    updated_at_ms = :updated_at_ms, failures = :failures,
    contract_version = :contract_version
WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: dependencies
SELECT depends_on FROM task_dependencies
WHERE swarm_id = :swarm_id AND task_id = :task_id ORDER BY depends_on;

-- name: unfinished_dependencies
-- Work that waits for its approval is not finished either.
SELECT d.depends_on FROM task_dependencies AS d
    JOIN tasks AS t ON t.swarm_id = d.swarm_id AND t.task_id = d.depends_on
    LEFT JOIN reviews AS r ON r.swarm_id = d.swarm_id AND r.task_id = d.depends_on
WHERE d.swarm_id = :swarm_id AND d.task_id = :task_id
    AND (t.status <> 'done' OR r.state = 'open')
ORDER BY d.depends_on;

-- name: add_dependency
INSERT INTO task_dependencies (swarm_id, task_id, depends_on)
VALUES (:swarm_id, :task_id, :depends_on);

-- name: dependents
SELECT t.swarm_id, t.task_id, t.title, t.description, t.priority, t.status, t.waits_for,
    t.queue_number, t.epoch, t.worker, t.checkpoint, t.last_error, t.created_at_ms,
    t.updated_at_ms, t.failures, t.contract_version
-- CROSS JOIN fixes the order of the tables: otherwise SQLite would scan every task.
FROM task_dependencies AS d CROSS JOIN tasks AS t
WHERE d.swarm_id = :swarm_id AND d.depends_on = :task_id
    AND t.swarm_id = d.swarm_id AND t.task_id = d.task_id
ORDER BY d.task_id;

-- name: change_ready
-- Add to the number of ready tasks of a priority.
INSERT INTO queues (swarm_id, priority, ready, last_number) VALUES (:swarm_id, :priority, 1, 0)
ON CONFLICT (swarm_id, priority) DO UPDATE SET ready = queues.ready + :change;

-- name: next_queue_number
INSERT INTO queues (swarm_id, priority, ready, last_number) VALUES (:swarm_id, :priority, 0, 1)
ON CONFLICT (swarm_id, priority) DO UPDATE SET last_number = queues.last_number + 1
RETURNING last_number;

-- name: ready_at_or_above
SELECT coalesce(sum(ready), 0) FROM queues
WHERE swarm_id = :swarm_id AND priority >= :priority;

-- name: queue_position
-- How many tasks are handed out up to this one, inclusive; not counted beyond the limit.
SELECT count(*) FROM (
    SELECT 1 FROM tasks WHERE swarm_id = :swarm_id AND status = 'queued' AND waits_for = 0
        AND (priority > :priority OR (priority = :priority
            AND (queue_number, task_id) <= (:queue_number, :task_id)))
    LIMIT :limit) AS ahead;

-- name: take_task
-- A task with its current attempt and its worker, in one query.
SELECT s.swarm_id, a.task_id, a.epoch, a.state, a.packet_id, a.worker, a.worktree,
    a.steps_total, a.steps_completed, a.retries_open, a.registered_at_ms, a.updated_at_ms,
    a.finished_at_ms, a.final_commit, a.tests_passed, a.review_passed, a.last_error,
    a.lease_expires_at_ms, a.lease_seconds, a.context_usage, a.current_step,
    a.commits, a.spec_path, a.contract_version, a.refusals, a.claim_id, a.received,
    t.task_id, t.title, t.description, t.priority, t.status, t.waits_for, t.queue_number, t.epoch,
    t.worker, t.checkpoint, t.last_error, t.created_at_ms, t.updated_at_ms, t.failures,
    t.contract_version,
    w.name, w.task_id, w.available, w.registered_at_ms, w.last_activity_at_ms
FROM swarms AS s
    LEFT JOIN tasks AS t ON t.swarm_id = s.swarm_id AND t.task_id = :task_id
    LEFT JOIN assignments AS a ON a.swarm_id = s.swarm_id AND a.task_id = t.task_id
    LEFT JOIN workers AS w ON w.swarm_id = s.swarm_id AND w.name = a.worker
WHERE s.swarm_id = :swarm_id;

-- name: take_worker
-- A worker with its assignment, in one query. The last column: whether the swarm has an offer that
-- no poll has received.
SELECT s.swarm_id, a.task_id, a.epoch, a.state, a.packet_id, a.worker, a.worktree,
    a.steps_total, a.steps_completed, a.retries_open, a.registered_at_ms, a.updated_at_ms,
    a.finished_at_ms, a.final_commit, a.tests_passed, a.review_passed, a.last_error,
    a.lease_expires_at_ms, a.lease_seconds, a.context_usage, a.current_step,
    a.commits, a.spec_path, a.contract_version, a.refusals, a.claim_id, a.received,
    w.name, w.task_id, w.available, w.registered_at_ms, w.last_activity_at_ms,
    EXISTS (SELECT 1 FROM assignments AS o
        WHERE o.swarm_id = s.swarm_id AND NOT o.received AND o.state = 'assigned')
FROM swarms AS s
    LEFT JOIN workers AS w ON w.swarm_id = s.swarm_id AND w.name = :name
    LEFT JOIN assignments AS a ON a.swarm_id = s.swarm_id AND a.task_id = w.task_id
WHERE s.swarm_id = :swarm_id;

-- name: next_offer
-- The oldest offer that no poll has received and that is not held back since. The conditions are those
-- of next_task.
SELECT swarm_id, task_id, epoch, state, packet_id, worker, worktree, steps_total,
    steps_completed, retries_open, registered_at_ms, updated_at_ms, finished_at_ms,
    final_commit, tests_passed, review_passed, last_error, lease_expires_at_ms, lease_seconds,
    context_usage, current_step, commits, spec_path, contract_version, refusals, claim_id,
    received
FROM assignments AS a WHERE swarm_id = :swarm_id AND NOT received AND state = 'assigned'
    AND (contract_version IS NULL OR NOT EXISTS (
        SELECT 1 FROM repo_locks AS l JOIN halted_repos AS h ON h.repo = l.repo
        WHERE l.swarm_id = a.swarm_id AND l.task_id = a.task_id))
    AND NOT EXISTS (SELECT 1 FROM holds AS w
        WHERE w.swarm_id = a.swarm_id AND w.task_id IN ('', a.task_id))
ORDER BY registered_at_ms, task_id LIMIT 1 OFFSET :skip;

-- name: has_offers
SELECT 1 FROM assignments
WHERE swarm_id = :swarm_id AND NOT received AND state = 'assigned' LIMIT 1;

-- name: offered_workers
SELECT swarm_id, worker FROM assignments WHERE NOT received AND state = 'assigned' LIMIT :limit;

-- name: worker
SELECT swarm_id, name, task_id, available, registered_at_ms, last_activity_at_ms
FROM workers WHERE swarm_id = :swarm_id AND name = :name;

-- name: put_worker
INSERT INTO workers (swarm_id, name, task_id, available, registered_at_ms, last_activity_at_ms)
VALUES (:swarm_id, :name, :task_id, :available, :registered_at_ms, :last_activity_at_ms)
ON CONFLICT (swarm_id, name) DO UPDATE SET task_id = excluded.task_id,
    available = excluded.available, last_activity_at_ms = excluded.last_activity_at_ms;

-- name: workers_with_states
SELECT w.swarm_id, w.name, w.task_id, w.available, w.registered_at_ms, w.last_activity_at_ms,
    a.state
FROM workers AS w LEFT JOIN assignments AS a
    ON a.swarm_id = w.swarm_id AND a.task_id = w.task_id
WHERE w.swarm_id = :swarm_id ORDER BY w.name;

-- name: busy_workers
SELECT name FROM workers WHERE swarm_id = :swarm_id AND task_id IS NOT NULL ORDER BY name;

-- name: end_assignment
DELETE FROM assignments WHERE swarm_id = :swarm_id AND task_id = :task_id AND epoch = :epoch;

-- name: expired_leases
SELECT swarm_id, task_id, epoch FROM assignments
WHERE lease_expires_at_ms <= :now_ms ORDER BY lease_expires_at_ms LIMIT :limit;

-- name: next_lease_end_at_ms
SELECT min(lease_expires_at_ms) FROM assignments WHERE lease_expires_at_ms IS NOT NULL;

-- name: add_question
INSERT INTO questions (swarm_id, question_id, task_id, epoch, worker, contact, question,
    asked_at_ms, answer, answered_at_ms, heard, dispute)
VALUES (:swarm_id,
    (SELECT coalesce(max(question_id), 0) + 1 FROM questions WHERE swarm_id = :swarm_id),
    :task_id, :epoch, :worker, :contact, :question, :asked_at_ms, NULL, NULL, :heard,
    :dispute)
RETURNING question_id;

-- name: question
SELECT swarm_id, question_id, task_id, epoch, worker, contact, question, asked_at_ms, answer,
    answered_at_ms, dispute
FROM questions WHERE swarm_id = :swarm_id AND question_id = :question_id;

-- name: open_questions
SELECT swarm_id, question_id, task_id, epoch, worker, contact, question, asked_at_ms, answer,
    answered_at_ms, dispute
FROM questions WHERE swarm_id = :swarm_id AND answer IS NULL
ORDER BY asked_at_ms, question_id LIMIT :limit;

-- name: open_questions_of_task
SELECT swarm_id, question_id, task_id, epoch, worker, contact, question, asked_at_ms, answer,
    answered_at_ms, dispute
FROM questions WHERE swarm_id = :swarm_id AND task_id = :task_id AND answer IS NULL
ORDER BY asked_at_ms, question_id LIMIT :limit;

-- name: answered_disputes
SELECT swarm_id, question_id, task_id, epoch, worker, contact, question, asked_at_ms, answer,
    answered_at_ms, dispute
FROM questions WHERE swarm_id = :swarm_id AND task_id = :task_id AND epoch = :epoch
    AND dispute IS NOT NULL AND answer IS NOT NULL
ORDER BY question_id DESC LIMIT :limit;

-- name: newest_questions
SELECT swarm_id, question_id, task_id, epoch, worker, contact, question, asked_at_ms, answer,
    answered_at_ms, dispute
FROM questions WHERE swarm_id = :swarm_id ORDER BY question_id DESC LIMIT :limit;

-- name: answer_question
UPDATE questions SET answer = :answer, answered_at_ms = :answered_at_ms
WHERE swarm_id = :swarm_id AND question_id = :question_id AND answer IS NULL;

-- name: readdress_question
UPDATE questions SET epoch = :epoch
WHERE swarm_id = :swarm_id AND question_id = :question_id;

-- name: withdraw_questions
UPDATE questions SET answer = :answer, answered_at_ms = :answered_at_ms, heard = :heard
WHERE swarm_id = :swarm_id AND task_id = :task_id AND epoch <= :epoch AND answer IS NULL;

-- name: has_unfinished_tasks
SELECT 1 FROM tasks WHERE swarm_id = :swarm_id AND status IN ('open', 'queued', 'active') LIMIT 1;

-- name: add_salvage
INSERT INTO salvage (swarm_id, task_id, epoch, worker, reason, commits, at_ms)
VALUES (:swarm_id, :task_id, :epoch, :worker, :reason, :commits, :at_ms)
ON CONFLICT (swarm_id, task_id, epoch) DO UPDATE SET commits = excluded.commits;

-- name: salvage_of_task
SELECT epoch, worker, reason, commits FROM salvage
WHERE swarm_id = :swarm_id AND task_id = :task_id ORDER BY epoch DESC LIMIT :limit;

-- name: first_answer
SELECT words, answer FROM answers WHERE swarm_id = :swarm_id AND report_key = :report_key;

-- name: add_answer
INSERT INTO answers (swarm_id, report_key, words, answer, at_ms)
VALUES (:swarm_id, :report_key, :words, :answer, :at_ms);

-- name: forget_answers
DELETE FROM answers WHERE (swarm_id, report_key) IN (
    SELECT swarm_id, report_key FROM answers WHERE at_ms < :at_ms ORDER BY at_ms LIMIT :limit);
