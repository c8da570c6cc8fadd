-- name: tokens
SELECT token_id, name, digest, role, swarm_id, task_id, worker, created_at_ms, created_by,
    expires_at_ms, revoked_at_ms, revoked_by
FROM tokens WHERE revoked_at_ms IS NULL ORDER BY name, created_at_ms, token_id;

-- name: tokens_after
SELECT token_id, name, digest, role, swarm_id, task_id, worker, created_at_ms, created_by,
    expires_at_ms, revoked_at_ms, revoked_by
FROM tokens WHERE token_id > :token_id ORDER BY token_id LIMIT :limit;

-- name: tokens_named
SELECT token_id, name, digest, role, swarm_id, task_id, worker, created_at_ms, created_by,
    expires_at_ms, revoked_at_ms, revoked_by
FROM tokens WHERE name = :name AND revoked_at_ms IS NULL ORDER BY created_at_ms, token_id;

-- name: token
SELECT token_id, name, digest, role, swarm_id, task_id, worker, created_at_ms, created_by,
    expires_at_ms, revoked_at_ms, revoked_by
FROM tokens WHERE token_id = :token_id;

-- name: add_token
INSERT INTO tokens (token_id, name, digest, role, swarm_id, task_id, worker, created_at_ms,
    created_by, expires_at_ms, revoked_at_ms, revoked_by)
VALUES (:token_id, :name, :digest, :role, :swarm_id, :task_id, :worker, :created_at_ms,
    :created_by, :expires_at_ms, :revoked_at_ms, :revoked_by);

-- name: set_token_expiry
UPDATE tokens SET expires_at_ms = :expires_at_ms
WHERE token_id = :token_id AND revoked_at_ms IS NULL;

-- name: revoke_token
UPDATE tokens SET revoked_at_ms = :at_ms, revoked_by = :by
WHERE token_id = :token_id AND revoked_at_ms IS NULL;

-- name: forget_tokens
DELETE FROM tokens WHERE token_id IN (SELECT token_id FROM tokens
    WHERE revoked_at_ms < :before_ms OR expires_at_ms < :before_ms
    ORDER BY token_id LIMIT :limit);

-- name: add_login_code
INSERT INTO login_codes (digest, name, role, swarm_id, task_id, worker, maker_id, created_at_ms,
    expires_at_ms, session_ends_at_ms)
VALUES (:digest, :name, :role, :swarm_id, :task_id, :worker, :maker_id, :created_at_ms,
    :expires_at_ms, :session_ends_at_ms);

-- name: has_login_code
SELECT 1 FROM login_codes WHERE digest = :digest;

-- name: take_login_code
-- Whoever deletes the row has the code: it can be used once, on one server.
DELETE FROM login_codes WHERE digest = :digest
RETURNING digest, name, role, swarm_id, task_id, worker, maker_id, created_at_ms, expires_at_ms,
    session_ends_at_ms;

-- name: forget_login_codes
DELETE FROM login_codes WHERE expires_at_ms <= :now_ms;

-- name: forget_older_login_codes
-- All codes of a name but the newest.
DELETE FROM login_codes WHERE name = :name AND digest NOT IN (
    SELECT digest FROM login_codes WHERE name = :name
    ORDER BY created_at_ms DESC, digest LIMIT :kept
);

-- name: login_code_count
SELECT count(*) FROM login_codes;

-- name: signing_keys
SELECT key_id, public_key, added_at_ms, added_by, retired_at_ms, retired_by
FROM signing_keys ORDER BY added_at_ms, key_id;

-- name: signing_key
SELECT key_id, public_key, added_at_ms, added_by, retired_at_ms, retired_by
FROM signing_keys WHERE key_id = :key_id;

-- name: add_signing_key
INSERT INTO signing_keys (key_id, public_key, added_at_ms, added_by, retired_at_ms, retired_by)
VALUES (:key_id, :public_key, :added_at_ms, :added_by, :retired_at_ms, :retired_by)
ON CONFLICT (key_id) DO NOTHING;

-- name: retire_signing_key
UPDATE signing_keys SET retired_at_ms = :at_ms, retired_by = :by
WHERE key_id = :key_id AND retired_at_ms IS NULL;

-- name: current_policy
SELECT version, body, sha256, applied_at_ms, applied_by, source
FROM policies ORDER BY version DESC LIMIT 1;

-- name: current_policy_version
SELECT coalesce(max(version), 0) FROM policies;

-- name: policy_version
SELECT version, body, sha256, applied_at_ms, applied_by, source
FROM policies WHERE version = :version;

-- name: policies_before
SELECT version, body, sha256, applied_at_ms, applied_by, source
FROM policies WHERE version < :version ORDER BY version DESC LIMIT :limit;

-- name: add_policy
INSERT INTO policies (version, body, sha256, applied_at_ms, applied_by, source)
VALUES (:version, :body, :sha256, :applied_at_ms, :applied_by, :source)
ON CONFLICT (version) DO NOTHING;

-- name: servers
SELECT server_id, host, address, version, started_at_ms, seen_at_ms, stopped_at_ms, facts
FROM servers ORDER BY started_at_ms, server_id;

-- name: put_server
INSERT INTO servers (server_id, host, address, version, started_at_ms, seen_at_ms, stopped_at_ms,
    facts)
VALUES (:server_id, :host, :address, :version, :started_at_ms, :seen_at_ms, :stopped_at_ms, :facts)
ON CONFLICT (server_id) DO UPDATE SET host = excluded.host, address = excluded.address,
    version = excluded.version, started_at_ms = excluded.started_at_ms,
    seen_at_ms = excluded.seen_at_ms, stopped_at_ms = excluded.stopped_at_ms,
    facts = excluded.facts;

-- name: forget_servers
DELETE FROM servers WHERE seen_at_ms < :seen_before_ms;
