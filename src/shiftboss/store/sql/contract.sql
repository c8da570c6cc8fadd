-- Repo locks, CI, halts and checkpoints, for both dialects.

-- name: repo_locks
SELECT repo, swarm_id, task_id, since_ms, merges FROM repo_locks ORDER BY repo;

-- name: repo_lock_of_task
SELECT repo, swarm_id, task_id, since_ms, merges FROM repo_locks
WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: add_repo_lock
INSERT INTO repo_locks (repo, swarm_id, task_id, since_ms, merges)
VALUES (:repo, :swarm_id, :task_id, :since_ms, :merges)
ON CONFLICT DO NOTHING;

-- name: release_repo
DELETE FROM repo_locks WHERE repo = :repo;

-- name: repo_states
SELECT repo, state, sha, run_id, swarm_id, task_id, since_ms FROM repo_states ORDER BY repo;

-- name: forget_red
DELETE FROM repo_states WHERE repo = :repo AND state = 'red';

-- name: put_repo_state
INSERT INTO repo_states (repo, state, sha, run_id, swarm_id, task_id, since_ms)
VALUES (:repo, :state, :sha, :run_id, :swarm_id, :task_id, :since_ms)
ON CONFLICT (repo) DO UPDATE SET state = excluded.state, sha = excluded.sha,
    run_id = excluded.run_id, swarm_id = excluded.swarm_id, task_id = excluded.task_id,
    since_ms = excluded.since_ms;

-- name: put_green
UPDATE repo_states SET green_at_ms = :pushed_at_ms WHERE repo = :repo;

-- name: last_green_at_ms
SELECT green_at_ms FROM repo_states WHERE repo = :repo;

-- name: tracking
SELECT swarm_id, task_id, epoch, repo, sha, state, run_id, report, errors, pushed_at_ms, look_at_ms,
    pause_ms
FROM ci_tracking WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: due_tracking
SELECT swarm_id, task_id, epoch, repo, sha, state, run_id, report, errors, pushed_at_ms, look_at_ms,
    pause_ms
FROM ci_tracking WHERE look_at_ms <= :now_ms ORDER BY look_at_ms LIMIT :limit;

-- name: tracking_of_sha
SELECT swarm_id, task_id, epoch, repo, sha, state, run_id, report, errors, pushed_at_ms, look_at_ms,
    pause_ms
FROM ci_tracking WHERE repo = :repo AND sha = :sha AND look_at_ms IS NOT NULL LIMIT 100;

-- name: next_ci_check_at_ms
SELECT min(look_at_ms) FROM ci_tracking WHERE look_at_ms IS NOT NULL;

-- name: put_tracking
INSERT INTO ci_tracking (swarm_id, task_id, epoch, repo, sha, state, run_id, report, errors,
    pushed_at_ms, look_at_ms, pause_ms)
VALUES (:swarm_id, :task_id, :epoch, :repo, :sha, :state, :run_id, :report, :errors,
    :pushed_at_ms, :look_at_ms, :pause_ms)
ON CONFLICT (swarm_id, task_id) DO UPDATE SET epoch = excluded.epoch, repo = excluded.repo,
    sha = excluded.sha, state = excluded.state, run_id = excluded.run_id,
    report = excluded.report, errors = excluded.errors, pushed_at_ms = excluded.pushed_at_ms,
    look_at_ms = excluded.look_at_ms, pause_ms = excluded.pause_ms;

-- name: drop_tracking
DELETE FROM ci_tracking WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: add_push
INSERT INTO pushes (repo, number, sha, swarm_id, task_id, at_ms)
VALUES (:repo, (SELECT coalesce(max(number), 0) + 1 FROM pushes WHERE repo = :repo),
    :sha, :swarm_id, :task_id, :at_ms);

-- name: newest_pushes
SELECT repo, number, sha, swarm_id, task_id, at_ms FROM pushes
WHERE repo = :repo ORDER BY number DESC LIMIT :limit;

-- name: halts_in_force
SELECT halt_id, repos, reason, swarm_id, task_id, at_ms, lifted_at_ms FROM halts
WHERE lifted_at_ms IS NULL ORDER BY halt_id;

-- name: add_halt
INSERT INTO halts (halt_id, repos, reason, swarm_id, task_id, at_ms, lifted_at_ms)
VALUES ((SELECT coalesce(max(halt_id), 0) + 1 FROM halts), :repos, :reason, :swarm_id, :task_id,
    :at_ms, NULL)
RETURNING halt_id;

-- name: halt
SELECT halt_id, repos, reason, swarm_id, task_id, at_ms, lifted_at_ms FROM halts
WHERE halt_id = :halt_id;

-- name: add_halted_repo
INSERT INTO halted_repos (halt_id, repo) VALUES (:halt_id, :repo);

-- name: halt_of_task
-- The first halt in force for the repo of the task.
SELECT h.halt_id, h.repos, h.reason, h.swarm_id, h.task_id, h.at_ms, h.lifted_at_ms
FROM repo_locks AS l
JOIN halted_repos AS r ON r.repo = l.repo
JOIN halts AS h ON h.halt_id = r.halt_id
WHERE l.swarm_id = :swarm_id AND l.task_id = :task_id ORDER BY h.halt_id LIMIT 1;

-- name: drop_halted_repos
DELETE FROM halted_repos WHERE halt_id = :halt_id;

-- name: lift_halt
UPDATE halts SET lifted_at_ms = :lifted_at_ms WHERE halt_id = :halt_id AND lifted_at_ms IS NULL;

-- name: put_checkpoint
INSERT INTO checkpoints (swarm_id, task_id, epoch, trigger_name, body, at_ms)
VALUES (:swarm_id, :task_id, :epoch, :trigger_name, :body, :at_ms)
ON CONFLICT (swarm_id, task_id) DO UPDATE SET epoch = excluded.epoch,
    trigger_name = excluded.trigger_name, body = excluded.body, at_ms = excluded.at_ms;

-- name: checkpoint
SELECT swarm_id, task_id, epoch, trigger_name, body, at_ms FROM checkpoints
WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: checkpoints_of_swarm
SELECT swarm_id, task_id, epoch, trigger_name, body, at_ms FROM checkpoints
WHERE swarm_id = :swarm_id ORDER BY task_id LIMIT :limit;

-- name: contract_attempt
SELECT swarm_id, task_id, epoch, milestone_at_ms, fix_attempts, ci_failed, progress, ladder,
    denials, paused, last_commit_ms, look_at_ms, signs, tip
FROM contract_attempts WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: due_attempts
SELECT swarm_id, task_id, epoch, milestone_at_ms, fix_attempts, ci_failed, progress, ladder,
    denials, paused, last_commit_ms, look_at_ms, signs, tip
FROM contract_attempts WHERE look_at_ms <= :now_ms ORDER BY look_at_ms LIMIT :limit;

-- name: next_attempt_check_at_ms
SELECT min(look_at_ms) FROM contract_attempts WHERE look_at_ms IS NOT NULL;

-- name: put_contract_attempt
INSERT INTO contract_attempts (swarm_id, task_id, epoch, milestone_at_ms, fix_attempts, ci_failed,
    progress, ladder, denials, paused, last_commit_ms, look_at_ms, signs, tip)
VALUES (:swarm_id, :task_id, :epoch, :milestone_at_ms, :fix_attempts, :ci_failed, :progress,
    :ladder, :denials, :paused, :last_commit_ms, :look_at_ms, :signs, :tip)
ON CONFLICT (swarm_id, task_id) DO UPDATE SET epoch = excluded.epoch,
    milestone_at_ms = excluded.milestone_at_ms, fix_attempts = excluded.fix_attempts,
    ci_failed = excluded.ci_failed, progress = excluded.progress, ladder = excluded.ladder,
    denials = excluded.denials, paused = excluded.paused,
    last_commit_ms = excluded.last_commit_ms, look_at_ms = excluded.look_at_ms,
    signs = excluded.signs, tip = excluded.tip;

-- name: drop_contract_attempt
DELETE FROM contract_attempts WHERE swarm_id = :swarm_id AND task_id = :task_id;
