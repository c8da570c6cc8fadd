-- older servers: go on
-- How many tasks of a swarm are over, and how many are accepted: kept instead of counted, because
-- their number grows with history. Triggers keep them, so servers of older versions do, too.
CREATE TABLE swarm_totals (
    swarm_id TEXT NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    -- A status of a task that is over, or 'accepted': tasks that have an accepted claim.
    what TEXT NOT NULL CHECK (what IN ('done', 'failed', 'cancelled', 'accepted')),
    total INTEGER NOT NULL CHECK (total >= 0),
    PRIMARY KEY (swarm_id, what)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER tasks_count_added AFTER INSERT ON tasks
WHEN NEW.status IN ('done', 'failed', 'cancelled') BEGIN
    INSERT INTO swarm_totals (swarm_id, what, total) VALUES (NEW.swarm_id, NEW.status, 1)
    ON CONFLICT (swarm_id, what) DO UPDATE SET total = total + 1;
END;

CREATE TRIGGER tasks_count_ended AFTER UPDATE OF status ON tasks
WHEN NEW.status <> OLD.status AND NEW.status IN ('done', 'failed', 'cancelled') BEGIN
    INSERT INTO swarm_totals (swarm_id, what, total) VALUES (NEW.swarm_id, NEW.status, 1)
    ON CONFLICT (swarm_id, what) DO UPDATE SET total = total + 1;
END;

CREATE TRIGGER tasks_count_reopened AFTER UPDATE OF status ON tasks
WHEN NEW.status <> OLD.status AND OLD.status IN ('done', 'failed', 'cancelled') BEGIN
    UPDATE swarm_totals SET total = total - 1 WHERE swarm_id = OLD.swarm_id AND what = OLD.status;
END;

CREATE TRIGGER tasks_count_deleted AFTER DELETE ON tasks
WHEN OLD.status IN ('done', 'failed', 'cancelled') BEGIN
    UPDATE swarm_totals SET total = total - 1 WHERE swarm_id = OLD.swarm_id AND what = OLD.status;
END;

CREATE TRIGGER landings_count_added AFTER INSERT ON landings BEGIN
    INSERT INTO swarm_totals (swarm_id, what, total) VALUES (NEW.swarm_id, 'accepted', 1)
    ON CONFLICT (swarm_id, what) DO UPDATE SET total = total + 1;
END;

CREATE TRIGGER landings_count_deleted AFTER DELETE ON landings BEGIN
    UPDATE swarm_totals SET total = total - 1 WHERE swarm_id = OLD.swarm_id AND what = 'accepted';
END;

INSERT INTO swarm_totals (swarm_id, what, total)
SELECT swarm_id, status, count(*) FROM tasks
WHERE status IN ('done', 'failed', 'cancelled') GROUP BY swarm_id, status;
INSERT INTO swarm_totals (swarm_id, what, total)
SELECT swarm_id, 'accepted', count(*) FROM landings GROUP BY swarm_id;

-- The claims of a swarm that are open, without those that are over.
CREATE INDEX claims_open_of_swarm ON claims (swarm_id) WHERE ended_at_ms IS NULL;
