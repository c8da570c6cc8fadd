-- older servers: go on
-- Codes that a person exchanges for a session of the page, once. Sessions are tokens.
CREATE TABLE login_codes (
    digest BLOB NOT NULL PRIMARY KEY CHECK (length(digest) = 32),
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    swarm_id TEXT,
    task_id TEXT,
    worker TEXT,
    maker_id TEXT,
    created_at_ms INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL,
    session_ends_at_ms INTEGER NOT NULL,
    CHECK (task_id IS NULL OR swarm_id IS NOT NULL)
) STRICT, WITHOUT ROWID;

CREATE INDEX login_codes_by_end ON login_codes (expires_at_ms);
