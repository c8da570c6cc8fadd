-- older servers: go on
-- Who did what, and what all servers of a deployment share: tokens, keys, the policy, each other.

-- The name of who caused the event: of a token, "operator", "local" (nobody was asked for a name) or
-- "server". Empty for events of older versions.
ALTER TABLE events ADD COLUMN actor TEXT NOT NULL DEFAULT '';

-- A token is known by its digest only. While a name is rotated it has two tokens.
CREATE TABLE tokens (
    token_id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    digest BLOB NOT NULL CHECK (length(digest) = 32),
    role TEXT NOT NULL,
    swarm_id TEXT,
    task_id TEXT,
    worker TEXT,
    created_at_ms INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    expires_at_ms INTEGER,
    revoked_at_ms INTEGER,
    revoked_by TEXT,
    CHECK (task_id IS NULL OR swarm_id IS NOT NULL),
    CHECK ((revoked_at_ms IS NULL) = (revoked_by IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX tokens_by_name ON tokens (name, created_at_ms);
CREATE UNIQUE INDEX tokens_by_digest ON tokens (digest);

-- The public keys that have signed receipts. A receipt names its key.
CREATE TABLE signing_keys (
    key_id TEXT NOT NULL PRIMARY KEY,
    public_key TEXT NOT NULL,
    added_at_ms INTEGER NOT NULL,
    added_by TEXT NOT NULL,
    retired_at_ms INTEGER,
    retired_by TEXT,
    CHECK ((retired_at_ms IS NULL) = (retired_by IS NULL))
) STRICT, WITHOUT ROWID;

-- Every policy that was in force. The highest version is.
CREATE TABLE policies (
    version INTEGER NOT NULL PRIMARY KEY CHECK (version > 0),
    body TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    applied_at_ms INTEGER NOT NULL,
    applied_by TEXT NOT NULL,
    source TEXT NOT NULL
) STRICT;

-- The servers on this database. A row is renewed while its server lives.
CREATE TABLE servers (
    server_id TEXT NOT NULL PRIMARY KEY,
    host TEXT NOT NULL,
    address TEXT NOT NULL,
    version TEXT NOT NULL,
    started_at_ms INTEGER NOT NULL,
    seen_at_ms INTEGER NOT NULL,
    stopped_at_ms INTEGER,
    facts TEXT NOT NULL
) STRICT, WITHOUT ROWID;
