-- Notifications, for both dialects.

-- name: add_to_outbox
INSERT INTO notification_outbox (swarm_id, event_id) VALUES (:swarm_id, :event_id);

-- name: outbox
SELECT swarm_id, event_id FROM notification_outbox ORDER BY swarm_id, event_id LIMIT :limit;

-- name: take_from_outbox
DELETE FROM notification_outbox WHERE swarm_id = :swarm_id AND event_id = :event_id;

-- name: add_notification
-- Only the leader adds them, one transaction after the other.
INSERT INTO notifications (number, swarm_id, event_id, kind, at_ms, content)
VALUES ((SELECT coalesce(max(number), 0) + 1 FROM notifications), :swarm_id, :event_id, :kind,
    :at_ms, :content)
RETURNING number;

-- name: add_delivery
INSERT INTO notification_deliveries (number, channel, state, due_at_ms, held, message_id, attempts,
    error, ended_at_ms)
VALUES (:number, :channel, :state, :due_at_ms, :held, :message_id, :attempts, :error, :ended_at_ms);

-- name: due_deliveries
SELECT d.number, d.channel, d.state, d.due_at_ms, d.held, d.message_id, d.attempts, d.error,
    d.ended_at_ms, n.swarm_id, n.event_id, n.kind, n.at_ms, n.content
FROM notification_deliveries AS d JOIN notifications AS n ON n.number = d.number
WHERE d.state = 'pending' AND d.channel = :channel AND d.due_at_ms <= :now_ms
ORDER BY d.due_at_ms, d.number LIMIT :limit;

-- name: letters_of_message
SELECT d.number, d.channel, d.state, d.due_at_ms, d.held, d.message_id, d.attempts, d.error,
    d.ended_at_ms, n.swarm_id, n.event_id, n.kind, n.at_ms, n.content
FROM notification_deliveries AS d JOIN notifications AS n ON n.number = d.number
WHERE d.state = 'pending' AND d.channel = :channel AND d.message_id = :message_id
ORDER BY d.number;

-- name: next_delivery_at_ms
SELECT min(due_at_ms) FROM notification_deliveries WHERE state = 'pending' AND channel = :channel;

-- name: save_delivery
UPDATE notification_deliveries SET state = :state, due_at_ms = :due_at_ms,
    message_id = :message_id, attempts = :attempts, error = :error, ended_at_ms = :ended_at_ms
WHERE number = :number AND channel = :channel AND state = 'pending';

-- name: retry_delivery
-- It is sent by itself, also if it was part of a digest.
UPDATE notification_deliveries SET state = 'pending', due_at_ms = :now_ms, message_id = NULL,
    attempts = 0, ended_at_ms = NULL
WHERE number = :number AND channel = :channel AND state = 'failed';

-- name: deliveries_of
SELECT number, channel, state, due_at_ms, held, message_id, attempts, error, ended_at_ms
FROM notification_deliveries WHERE number = :number ORDER BY channel;

-- name: letters_before
SELECT d.number, d.channel, d.state, d.due_at_ms, d.held, d.message_id, d.attempts, d.error,
    d.ended_at_ms, n.swarm_id, n.event_id, n.kind, n.at_ms, n.content
FROM notification_deliveries AS d JOIN notifications AS n ON n.number = d.number
WHERE d.number < :number ORDER BY d.number DESC, d.channel LIMIT :limit;

-- name: letters_in_state
SELECT d.number, d.channel, d.state, d.due_at_ms, d.held, d.message_id, d.attempts, d.error,
    d.ended_at_ms, n.swarm_id, n.event_id, n.kind, n.at_ms, n.content
FROM notification_deliveries AS d JOIN notifications AS n ON n.number = d.number
WHERE d.state = :state AND d.number < :number ORDER BY d.number DESC, d.channel LIMIT :limit;

-- name: pending_channels
SELECT DISTINCT channel FROM notification_deliveries WHERE state = 'pending' ORDER BY channel;

-- name: delivery_counts
SELECT channel, count(*) FROM (SELECT channel FROM notification_deliveries WHERE state = :state
    ORDER BY number DESC LIMIT :limit) AS newest
GROUP BY channel ORDER BY channel;

-- name: last_delivery_error
SELECT error FROM notification_deliveries
WHERE state IN ('pending', 'failed') AND channel = :channel AND error IS NOT NULL
ORDER BY number DESC LIMIT 1;

-- name: prune_notifications
-- With their deliveries, whatever their state. Never the newest: the next number continues from it.
DELETE FROM notifications WHERE number IN (SELECT number FROM notifications
    WHERE at_ms < :before_ms AND number < (SELECT max(number) FROM notifications)
    ORDER BY number LIMIT :limit);
