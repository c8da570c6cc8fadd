-- Work that the operator has rejected. A review has only the newest decision about a task.

CREATE TABLE rejections (
    swarm_id TEXT NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    task_id TEXT NOT NULL,
    commit_sha TEXT NOT NULL,
    tree_sha TEXT NOT NULL,
    reason TEXT NOT NULL,
    rejected_by TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (swarm_id, task_id, commit_sha)
) STRICT, WITHOUT ROWID;

INSERT INTO rejections (swarm_id, task_id, commit_sha, tree_sha, reason, rejected_by, at_ms)
SELECT v.swarm_id, v.task_id, v.commit_sha, json_extract(r.body, '$.receipt.tree'), v.reason,
    v.decided_by, v.decided_at_ms
FROM reviews AS v JOIN receipts AS r ON r.receipt_id = v.receipt_id
WHERE v.state = 'rejected';
