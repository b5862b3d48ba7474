-- What places cost by what they were: see worth.py. A row per place, currency and reason why it has no price.

-- name: worth_of_episodes
-- Of the card of each episode of over-use, in the grains of the window that the episode meets.
WITH
cost AS (
    SELECT
        cluster, place_id, epoch_us(grain_at) AS grain_us, currency, unpriced_reason, sum(cost_micro) AS cost_micro, sum(amount_gpu_us) AS amount_gpu_us
    FROM ledger.cost
    WHERE place_kind = 'device' AND grain_at >= make_timestamp($grain_from_us::BIGINT) AND grain_at < make_timestamp($to_us::BIGINT)
    GROUP BY cluster, place_id, grain_at, currency, unpriced_reason
)

SELECT
    episode.cluster, episode.pod_uid, episode.device_uuid, episode.gi, episode.rule, epoch_us(episode.started_at) AS started_us, cost.currency,
    cost.unpriced_reason, CAST(sum(cost.cost_micro) AS HUGEINT) AS cost_micro, CAST(sum(cost.amount_gpu_us) AS HUGEINT) AS amount_gpu_us
FROM ledger.over_use AS episode
CROSS JOIN (SELECT grain_us FROM dim.parameter) AS parameter
JOIN cost
    ON cost.cluster = episode.cluster AND cost.place_id = episode.device_uuid AND cost.grain_us <= epoch_us(episode.known_to_at)
    AND cost.grain_us + parameter.grain_us > epoch_us(episode.started_at)
WHERE episode.severity <> 'exposed'
GROUP BY episode.cluster, episode.pod_uid, episode.device_uuid, episode.gi, episode.rule, episode.started_at, cost.currency, cost.unpriced_reason
ORDER BY ALL;

-- name: worth_of_nodes
-- Of the cards of each node in the last grain that is booked of it by an instant.
SELECT
    cost.cluster, cost.node, cost.currency, cost.unpriced_reason, CAST(sum(cost.cost_micro) AS HUGEINT) AS cost_micro,
    CAST(sum(cost.amount_gpu_us) AS HUGEINT) AS amount_gpu_us
FROM ledger.cost AS cost
JOIN (
    SELECT cluster, node, max(grain_at) AS grain_at
    FROM ledger.cost
    WHERE place_kind <> 'cluster' AND grain_at <= make_timestamp($at_us::BIGINT)
    GROUP BY cluster, node
) AS last ON last.cluster = cost.cluster AND last.node IS NOT DISTINCT FROM cost.node AND last.grain_at = cost.grain_at
WHERE cost.place_kind <> 'cluster'
GROUP BY cost.cluster, cost.node, cost.currency, cost.unpriced_reason
ORDER BY ALL;
