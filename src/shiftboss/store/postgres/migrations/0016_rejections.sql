-- Work that the operator has rejected. A review has only the newest decision about a task.

CREATE TABLE rejections (
    swarm_id text COLLATE "C" NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    task_id text COLLATE "C" NOT NULL,
    commit_sha text COLLATE "C" NOT NULL,
    tree_sha text COLLATE "C" NOT NULL,
    reason text NOT NULL,
    rejected_by text NOT NULL,
    at_ms bigint NOT NULL,
    PRIMARY KEY (swarm_id, task_id, commit_sha)
);

INSERT INTO rejections (swarm_id, task_id, commit_sha, tree_sha, reason, rejected_by, at_ms)
SELECT v.swarm_id, v.task_id, v.commit_sha, r.body::json #>> '{receipt,tree}', v.reason,
    v.decided_by, v.decided_at_ms
FROM reviews AS v JOIN receipts AS r ON r.receipt_id = v.receipt_id
WHERE v.state = 'rejected';
