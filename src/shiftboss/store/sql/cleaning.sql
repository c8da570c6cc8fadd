-- Deleting what is old. All in small portions, by key.

-- name: prune_events
-- The oldest up to the first that is not old, looking at so many; never the newest: the next id
-- continues from it. What is left has no gaps. Each is found by its key: a range without a known end
-- could be read as a whole, with all events of the swarm.
DELETE FROM events WHERE swarm_id = :swarm_id AND event_id IN (
    SELECT old.event_id FROM (
        SELECT event_id FROM events WHERE swarm_id = :swarm_id
        ORDER BY event_id LIMIT :limit) AS old
    WHERE old.event_id < (
        SELECT coalesce(min(CASE WHEN at_ms >= :before_ms OR event_id = (
                SELECT max(event_id) FROM events WHERE swarm_id = :swarm_id) THEN event_id END),
            max(event_id) + 1)
        FROM (SELECT event_id, at_ms FROM events WHERE swarm_id = :swarm_id
            ORDER BY event_id LIMIT :limit) AS oldest));

-- name: delete_task
DELETE FROM tasks WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: delete_task_dependencies
DELETE FROM task_dependencies
WHERE swarm_id = :swarm_id AND (task_id = :task_id OR depends_on = :task_id);

-- name: delete_task_assignments
DELETE FROM assignments WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: delete_task_retries
DELETE FROM retries WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: delete_task_questions
DELETE FROM questions WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: delete_task_salvage
DELETE FROM salvage WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: delete_task_handoffs
DELETE FROM handoffs WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: delete_task_held_out_tests
DELETE FROM held_out_tests WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: delete_task_claims
DELETE FROM claims WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: delete_task_claim_passes
DELETE FROM claim_passes WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: delete_task_reservations
DELETE FROM reservations WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: delete_task_scope_requests
DELETE FROM scope_requests WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: delete_task_waivers
DELETE FROM waivers WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: delete_task_contract_attempts
DELETE FROM contract_attempts WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: delete_task_ci_tracking
DELETE FROM ci_tracking WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: delete_task_checkpoints
DELETE FROM checkpoints WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: delete_task_process_usage
DELETE FROM process_usage WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: delete_task_usage_totals
DELETE FROM usage_totals WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: delete_task_budgets
DELETE FROM budgets WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: delete_task_holds
DELETE FROM holds WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: delete_task_landings
DELETE FROM landings WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: delete_task_spawn_refusals
DELETE FROM spawn_refusals WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: delete_task_reviews
DELETE FROM reviews WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: delete_task_rejections
DELETE FROM rejections WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: delete_task_tokens
-- Otherwise they would be valid for a later task of the same name.
DELETE FROM tokens WHERE swarm_id = :swarm_id AND task_id = :task_id;

-- name: delete_swarm_tokens
DELETE FROM tokens WHERE swarm_id = :swarm_id;

-- name: prune_pushes
-- The newest of each repo stay: the search for a breakage reads them, and their numbers go on.
DELETE FROM pushes WHERE (repo, number) IN (SELECT p.repo, p.number FROM pushes AS p
    WHERE p.at_ms < :before_ms
        AND p.number <= (SELECT max(q.number) FROM pushes AS q WHERE q.repo = p.repo) - :kept
    LIMIT :limit);

-- name: prune_signals
-- The newest of each strategy stay; the sums of all are in its own row.
DELETE FROM signals WHERE (strategy, at_ms, swarm_id, task_id, epoch, number) IN (
    SELECT strategy, at_ms, swarm_id, task_id, epoch, number FROM signals
    WHERE strategy = :strategy AND at_ms < :before_ms AND at_ms < (
        SELECT at_ms FROM signals WHERE strategy = :strategy
        ORDER BY at_ms DESC LIMIT 1 OFFSET :kept)
    ORDER BY at_ms LIMIT :limit);

-- name: delete_worker
-- Not one that has a task.
DELETE FROM workers WHERE swarm_id = :swarm_id AND name = :name AND task_id IS NULL;

-- name: release_repos_of_swarm
-- A lock outlives its swarm otherwise: it has no foreign key.
DELETE FROM repo_locks WHERE swarm_id = :swarm_id;
