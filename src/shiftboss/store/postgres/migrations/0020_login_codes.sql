-- older servers: go on
-- Codes that a person exchanges for a session of the page, once. Sessions are tokens.
CREATE TABLE login_codes (
    digest bytea NOT NULL PRIMARY KEY CHECK (octet_length(digest) = 32),
    name text COLLATE "C" NOT NULL,
    role text COLLATE "C" NOT NULL,
    swarm_id text COLLATE "C",
    task_id text COLLATE "C",
    worker text COLLATE "C",
    maker_id text COLLATE "C",
    created_at_ms bigint NOT NULL,
    expires_at_ms bigint NOT NULL,
    session_ends_at_ms bigint NOT NULL,
    CHECK (task_id IS NULL OR swarm_id IS NOT NULL)
);

CREATE INDEX login_codes_by_end ON login_codes (expires_at_ms);
