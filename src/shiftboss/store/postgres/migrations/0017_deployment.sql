-- older servers: go on
-- Who did what, and what all servers of a deployment share: tokens, keys, the policy, each other.

-- The name of who caused the event: of a token, "operator", "local" (nobody was asked for a name) or
-- "server". Empty for events of older versions.
ALTER TABLE events ADD COLUMN actor text NOT NULL DEFAULT '';

-- A token is known by its digest only. While a name is rotated it has two tokens.
CREATE TABLE tokens (
    token_id text COLLATE "C" NOT NULL PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    digest bytea NOT NULL CHECK (octet_length(digest) = 32),
    role text NOT NULL,
    swarm_id text,
    task_id text,
    worker text,
    created_at_ms bigint NOT NULL,
    created_by text NOT NULL,
    expires_at_ms bigint,
    revoked_at_ms bigint,
    revoked_by text,
    CHECK (task_id IS NULL OR swarm_id IS NOT NULL),
    CHECK ((revoked_at_ms IS NULL) = (revoked_by IS NULL))
);

CREATE INDEX tokens_by_name ON tokens (name, created_at_ms);
CREATE UNIQUE INDEX tokens_by_digest ON tokens (digest);

-- The public keys that have signed receipts. A receipt names its key.
CREATE TABLE signing_keys (
    key_id text COLLATE "C" NOT NULL PRIMARY KEY,
    public_key text NOT NULL,
    added_at_ms bigint NOT NULL,
    added_by text NOT NULL,
    retired_at_ms bigint,
    retired_by text,
    CHECK ((retired_at_ms IS NULL) = (retired_by IS NULL))
);

-- Every policy that was in force. The highest version is.
CREATE TABLE policies (
    version bigint NOT NULL PRIMARY KEY CHECK (version > 0),
    body text NOT NULL,
    sha256 text NOT NULL,
    applied_at_ms bigint NOT NULL,
    applied_by text NOT NULL,
    source text NOT NULL
);

-- The servers on this database. A row is renewed while its server lives.
CREATE TABLE servers (
    server_id text COLLATE "C" NOT NULL PRIMARY KEY,
    host text NOT NULL,
    address text NOT NULL,
    version text NOT NULL,
    started_at_ms bigint NOT NULL,
    seen_at_ms bigint NOT NULL,
    stopped_at_ms bigint,
    facts text NOT NULL
);
