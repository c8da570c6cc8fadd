-- older servers: go on
-- How many tasks of a swarm are over, and how many are accepted: kept instead of counted, because
-- their number grows with history. Triggers keep them, so servers of older versions do, too.
CREATE TABLE swarm_totals (
    swarm_id text COLLATE "C" NOT NULL REFERENCES swarms (swarm_id) ON DELETE CASCADE,
    -- A status of a task that is over, or 'accepted': tasks that have an accepted claim.
    what text NOT NULL CHECK (what IN ('done', 'failed', 'cancelled', 'accepted')),
    total bigint NOT NULL CHECK (total >= 0),
    PRIMARY KEY (swarm_id, what)
    -- Room for new versions of a row on its page: its updates need no entry in the index.
) WITH (fillfactor = 50);

-- OR REPLACE: the function stays behind when the tables are moved aside to restore a backup.
CREATE OR REPLACE FUNCTION count_tasks_over() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' AND OLD.status IN ('done', 'failed', 'cancelled') THEN
        UPDATE swarm_totals SET total = total - 1
        WHERE swarm_id = OLD.swarm_id AND what = OLD.status;
    END IF;
    IF TG_OP <> 'DELETE' AND NEW.status IN ('done', 'failed', 'cancelled') THEN
        INSERT INTO swarm_totals (swarm_id, what, total) VALUES (NEW.swarm_id, NEW.status, 1)
        ON CONFLICT (swarm_id, what) DO UPDATE SET total = swarm_totals.total + 1;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER tasks_count_added AFTER INSERT ON tasks FOR EACH ROW
WHEN (NEW.status IN ('done', 'failed', 'cancelled')) EXECUTE FUNCTION count_tasks_over();
CREATE TRIGGER tasks_count_changed AFTER UPDATE OF status ON tasks FOR EACH ROW
WHEN (NEW.status <> OLD.status AND (NEW.status IN ('done', 'failed', 'cancelled')
    OR OLD.status IN ('done', 'failed', 'cancelled')))
EXECUTE FUNCTION count_tasks_over();
CREATE TRIGGER tasks_count_deleted AFTER DELETE ON tasks FOR EACH ROW
WHEN (OLD.status IN ('done', 'failed', 'cancelled')) EXECUTE FUNCTION count_tasks_over();

CREATE OR REPLACE FUNCTION count_accepted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        UPDATE swarm_totals SET total = total - 1
        WHERE swarm_id = OLD.swarm_id AND what = 'accepted';
    ELSE
        INSERT INTO swarm_totals (swarm_id, what, total) VALUES (NEW.swarm_id, 'accepted', 1)
        ON CONFLICT (swarm_id, what) DO UPDATE SET total = swarm_totals.total + 1;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER landings_count AFTER INSERT OR DELETE ON landings FOR EACH ROW
EXECUTE FUNCTION count_accepted();

-- The triggers have locked the tables: nothing is written between them and these counts.
INSERT INTO swarm_totals (swarm_id, what, total)
SELECT swarm_id, status, count(*) FROM tasks
WHERE status IN ('done', 'failed', 'cancelled') GROUP BY swarm_id, status;
INSERT INTO swarm_totals (swarm_id, what, total)
SELECT swarm_id, 'accepted', count(*) FROM landings GROUP BY swarm_id;

-- The claims of a swarm that are open, without those that are over.
CREATE INDEX claims_open_of_swarm ON claims (swarm_id) WHERE ended_at_ms IS NULL;
