-- Q7: who takes more than was granted.

-- name: span
SELECT epoch_us(min(started_at)) AS first_us, epoch_us(max(known_to_at)) AS last_us, count(*) AS episodes FROM ledger.over_use;

-- name: episodes
-- Episodes that the window meets. in_window_gpu_us: what was taken within it, NULL where a part is not known; in_window_least_gpu_us: at least. A stretch
-- that the window cuts is cut with it, floored.
WITH
piece AS (
    SELECT
        whole.cluster, whole.pod_uid, whole.device_uuid, whole.gi, whole.rule, whole.started_at,
        CAST(
            sum(
                CAST(part.excess_least_gpu_us AS HUGEINT)
                * greatest(least(epoch_us(part.shown_to_at), $to_us::BIGINT) - greatest(epoch_us(part.started_at), $from_us::BIGINT), 0)
                // greatest(epoch_us(part.shown_to_at) - epoch_us(part.started_at), 1)
            ) AS BIGINT
        ) AS least_gpu_us,
        bool_and(part.excess_gpu_us IS NOT NULL)
            FILTER (WHERE part.started_at < make_timestamp($to_us::BIGINT) AND part.shown_to_at >= make_timestamp($from_us::BIGINT)) AS is_told
    FROM ledger.over_use AS whole
    JOIN ledger.excess AS part
        ON part.cluster = whole.cluster AND part.pod_uid = whole.pod_uid AND part.device_uuid = whole.device_uuid
        AND part.gi IS NOT DISTINCT FROM whole.gi AND part.rule = whole.rule AND part.started_at >= whole.started_at
        AND part.shown_to_at <= whole.known_to_at
    GROUP BY whole.cluster, whole.pod_uid, whole.device_uuid, whole.gi, whole.rule, whole.started_at
),

met AS (
    SELECT
        episode.*, coalesce(piece.is_told, episode.excess_gpu_us IS NOT NULL) AS is_told,
        CASE
            WHEN episode.samples_count = 0 THEN
                CAST(
                    CAST(episode.excess_least_gpu_us AS HUGEINT)
                    * greatest(least(epoch_us(episode.known_to_at), $to_us::BIGINT) - greatest(epoch_us(episode.started_at), $from_us::BIGINT), 0)
                    // greatest(epoch_us(episode.known_to_at) - epoch_us(episode.started_at), 1) AS BIGINT
                )
            ELSE coalesce(piece.least_gpu_us, 0)
        END AS in_window_least_gpu_us
    FROM ledger.over_use AS episode
    LEFT JOIN piece
        ON piece.cluster = episode.cluster AND piece.pod_uid = episode.pod_uid AND piece.device_uuid IS NOT DISTINCT FROM episode.device_uuid
        AND piece.gi IS NOT DISTINCT FROM episode.gi AND piece.rule = episode.rule AND piece.started_at = episode.started_at
    WHERE episode.started_at < make_timestamp($to_us::BIGINT)
        AND (episode.ended_at IS NULL OR episode.ended_at > make_timestamp($from_us::BIGINT) OR episode.started_at >= make_timestamp($from_us::BIGINT))
)

SELECT
    cluster, pod_uid, device_uuid, gi, rule, severity, hard_reason, epoch_us(started_at) AS started_us, epoch_us(ended_at) AS ended_us,
    epoch_us(known_to_at) AS known_us, samples_count, interval_us, granted_mib, peak_mib, granted_percent, peak_percent, excess_mib_us, basis, evidence_grade,
    CASE WHEN is_told THEN in_window_least_gpu_us END AS in_window_gpu_us, in_window_least_gpu_us
FROM met
ORDER BY cluster, pod_uid, device_uuid, gi, rule, started_at;

-- name: curves
-- What was seen, by grain and minute: see ledger.excess.
SELECT cluster, pod_uid, device_uuid, gi, rule, epoch_us(grain_at) AS grain_us, epoch_us(started_at) AS started_us, curve
FROM ledger.excess
WHERE curve <> '' AND grain_at >= make_timestamp($from_us::BIGINT) - INTERVAL 1 HOUR AND grain_at < make_timestamp($to_us::BIGINT)
ORDER BY started_at, cluster, pod_uid, device_uuid, gi, rule;

-- name: pods
SELECT
    pod.cluster, pod.pod_uid, pod.namespace, pod.pod, pod.node, pod.phase, pod.tenant, pod.workload_kind, pod.workload_name, pod.queue, pod.qos, pod.scheduler,
    coalesce(asked.person, contact.person) AS person
FROM dim.pod AS pod
LEFT JOIN (
    SELECT member.cluster, member.pod_uid, min(demand.person) AS person
    FROM dim.demand_pod AS member
    JOIN dim.demand AS demand ON demand.cluster = member.cluster AND demand.demand_id = member.demand_id
    WHERE demand.person IS NOT NULL
    GROUP BY member.cluster, member.pod_uid
) AS asked ON asked.cluster = pod.cluster AND asked.pod_uid = pod.pod_uid
LEFT JOIN (
    SELECT cluster, namespace, min(person) AS person FROM dim.namespace_contact GROUP BY cluster, namespace
) AS contact ON coalesce(contact.cluster, pod.cluster) = pod.cluster AND contact.namespace = pod.namespace
WHERE (pod.cluster, pod.pod_uid) IN (
    SELECT (cluster, pod_uid) FROM ledger.over_use
    UNION
    SELECT (cluster, pod_uid) FROM ledger.holding WHERE unit_kind = 'vgpu'
);

-- name: devices
SELECT cluster, device_uuid, node, device_index, vendor, model, memory_mib
FROM dim.device
QUALIFY row_number() OVER (PARTITION BY cluster, device_uuid ORDER BY valid_from_at DESC NULLS LAST, node) = 1;

-- name: limited
-- Who held a part of a card in the window that a sharing layer limits, and whether anything measured it: the driver's processes or the card that it had
-- alone (ledger.usage), or the layer's own count (ledger.deviation).
SELECT
    held.cluster, held.pod_uid, held.device_uuid, max(held.node) AS node, count(used.device_uuid) + count(counted.device_uuid) > 0 AS is_measured
FROM ledger.holding AS held
LEFT JOIN (
    SELECT DISTINCT cluster, pod_uid, device_uuid
    FROM ledger.usage
    WHERE path IN ('process', 'exclusive') AND samples_count > 0 AND grain_at >= make_timestamp($grain_from_us::BIGINT) AND grain_at < make_timestamp($to_us::BIGINT)
) AS used ON used.cluster = held.cluster AND used.pod_uid = held.pod_uid AND used.device_uuid = held.device_uuid
LEFT JOIN (
    SELECT DISTINCT cluster, pod_uid, device_uuid
    FROM ledger.deviation
    WHERE pod_uid IS NOT NULL AND (counted_last_mib IS NOT NULL OR counted_observed_us > 0 OR device_observed_us > 0 OR device_last_mib IS NOT NULL)
        AND grain_at >= make_timestamp($grain_from_us::BIGINT) AND grain_at < make_timestamp($to_us::BIGINT)
) AS counted ON counted.cluster = held.cluster AND counted.pod_uid = held.pod_uid AND counted.device_uuid = held.device_uuid
WHERE held.unit_kind = 'vgpu' AND held.occupancy <> 'reserved' AND held.device_uuid IS NOT NULL
    AND held.started_at < make_timestamp($to_us::BIGINT) AND coalesce(held.ended_at, held.known_to_at) > make_timestamp($from_us::BIGINT)
GROUP BY held.cluster, held.pod_uid, held.device_uuid
ORDER BY held.cluster, held.pod_uid, held.device_uuid;

-- name: unlisted_cards
-- Cards on which no process of any pod was seen in the window: a bypass would not show there.
SELECT device.cluster, device.device_uuid, max(device.node) AS node
FROM dim.device AS device
WHERE (device.cluster, device.device_uuid) NOT IN (
    SELECT (cluster, device_uuid)
    FROM ledger.usage
    WHERE path = 'process' AND grain_at >= make_timestamp($grain_from_us::BIGINT) AND grain_at < make_timestamp($to_us::BIGINT)
)
GROUP BY device.cluster, device.device_uuid
ORDER BY device.cluster, device.device_uuid;

-- name: grain
SELECT grain_us FROM dim.parameter;
