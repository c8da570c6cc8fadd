-- older servers: go on
-- What a verifier could not look at, and which verifiers there are.
--
-- A verifier that cannot look at a claim (its machine lacks the repository, a tool) passes on it:
-- the claim goes to another one. `verdict`: it would refuse the claim if nobody else can look.
CREATE TABLE claim_passes (
    swarm_id text COLLATE "C" NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    task_id text COLLATE "C" NOT NULL,
    claim_id bigint NOT NULL,
    verifier text COLLATE "C" NOT NULL,
    reason text NOT NULL,
    times bigint NOT NULL CHECK (times >= 1),
    passed_at_ms bigint NOT NULL,
    again_at_ms bigint NOT NULL,
    verdict text,
    PRIMARY KEY (swarm_id, task_id, claim_id, verifier)
);

CREATE TABLE verifiers (
    name text COLLATE "C" NOT NULL PRIMARY KEY,
    seen_at_ms bigint NOT NULL
);

ALTER TABLE claims ADD COLUMN taken_at_ms bigint;
-- No verifier can look at it, so it waits for a person.
ALTER TABLE claims ADD COLUMN escalated_at_ms bigint;
