-- The last word of every series of a sharing layer's exporters (an hour back from the cluster's last), whose it is, and how that pod stood then.
-- standing: live (it holds the card), reserved, finished (the object is there, the pod ended), gone (no such pod: a complete listing at or after
-- the sample does not name it), elsewhere (it lives and does not hold this card), unlisted (nobody listed the pods by then). card = no pod.
-- round_at: the last word of the same origin about the same node; a series that is 5 minutes older is no longer printed (is_current).
WITH
latest AS (
    SELECT cluster, max(occurred_at) AS last_at
    FROM fact.partition_sample
    WHERE origin IN ('monitor', 'scheduler') AND occurred_at <= (SELECT horizon_at FROM dim.parameter)
    GROUP BY cluster
),

recent AS (
    SELECT sample.*
    FROM fact.partition_sample AS sample
    JOIN latest ON latest.cluster = sample.cluster AND sample.occurred_at >= latest.last_at - INTERVAL 1 HOUR AND sample.occurred_at <= latest.last_at
    WHERE sample.origin IN ('monitor', 'scheduler') AND sample.occurred_at >= (SELECT min(last_at) FROM latest) - INTERVAL 1 HOUR
    QUALIFY row_number() OVER (
        PARTITION BY sample.cluster, sample.origin, sample.device_uuid, sample.namespace, sample.pod, sample.container
        ORDER BY sample.occurred_at DESC, sample.fact_id
    ) = 1
),

card AS (
    SELECT cluster, device_uuid, arg_max(node, last_seen_at) AS node, max(memory_mib) AS memory_mib
    FROM dim.device
    GROUP BY cluster, device_uuid
),

bearer AS (
    SELECT
        cluster, alias, pod_uid, coalesce(created_at, TIMESTAMP '1970-01-01') AS from_at,
        coalesce(lead(coalesce(created_at, TIMESTAMP '1970-01-01')) OVER turns, TIMESTAMP '9999-12-31') AS to_at,
        count(*) OVER (PARTITION BY cluster, alias) AS bearers_count
    FROM (
        SELECT cluster, alias, created_at, arg_max(pod_uid, (seen, pod_uid)) AS pod_uid
        FROM dim.pod_alias
        GROUP BY cluster, alias, created_at
    ) AS named
    WINDOW turns AS (PARTITION BY cluster, alias ORDER BY coalesce(created_at, TIMESTAMP '1970-01-01'))
),

listed AS (
    SELECT cluster, max(coalesce(observed_to_at, occurred_at)) AS listed_at
    FROM fact.source_status
    WHERE kind = 'pods' AND scope = 'cluster' AND complete AND status = 'ok'
    GROUP BY cluster
),

named AS (
    SELECT
        recent.*, coalesce(recent.node, card.node) AS at_node, card.memory_mib AS physical_mib, bearer.bearers_count,
        CASE WHEN recent.pod IS NOT NULL THEN coalesce(recent.pod_uid, bearer.pod_uid) END AS bearer_uid
    FROM recent
    LEFT JOIN card ON card.cluster = recent.cluster AND card.device_uuid = recent.device_uuid
    LEFT JOIN bearer
        ON bearer.cluster = recent.cluster AND bearer.alias = 'name:' || coalesce(recent.namespace, '') || '/' || recent.pod
        AND recent.occurred_at >= bearer.from_at AND recent.occurred_at < bearer.to_at
),

life AS (
    SELECT
        cluster, pod_uid, device_uuid, occupancy = 'reserved' AS is_reserved, min(started_at) AS started_at,
        max(coalesce(ended_before_at, ended_at, TIMESTAMP '9999-12-31')) AS ended_at, max(gi) AS gi, bool_or(unit_kind = 'mig') AS is_mig
    FROM ledger.holding
    WHERE device_uuid IS NOT NULL
    GROUP BY cluster, pod_uid, device_uuid, occupancy = 'reserved'
),

over AS (
    SELECT cluster, pod_uid, max(phase) AS phase, max(last_container_end_at) AS ended_at, max(gone_by_at) AS gone_by_at
    FROM dim.pod
    WHERE requested
    GROUP BY cluster, pod_uid
)

SELECT
    named.cluster, named.origin, named.device_uuid, named.at_node AS node, named.namespace, named.pod, named.container, named.bearer_uid AS pod_uid,
    named.bearers_count, coalesce(held.gi, named.gi) AS gi, coalesce(held.is_mig, FALSE) AS is_mig, named.memory_limit_mib AS limit_mib,
    CASE WHEN named.memory_counted_mib <= coalesce(named.physical_mib, named.memory_counted_mib) THEN named.memory_counted_mib END AS counted_mib,
    named.memory_allocated_mib AS allocated_mib, named.cores_allocated_percent AS cores_percent, named.sm_ratio, named.unknown, named.import_id,
    named.occurred_at,
    max(named.occurred_at) OVER exporter AS round_at,
    named.occurred_at >= max(named.occurred_at) OVER exporter - INTERVAL 5 MINUTE AS is_current,
    CASE
        WHEN named.pod IS NULL THEN 'card'
        WHEN named.occurred_at >= held.started_at AND named.occurred_at < held.ended_at THEN 'live'
        WHEN named.occurred_at >= reserved.started_at AND named.occurred_at < reserved.ended_at THEN 'reserved'
        WHEN over.gone_by_at + INTERVAL 10 MINUTE <= named.occurred_at THEN 'gone'
        WHEN over.pod_uid IS NULL AND listed.listed_at >= named.occurred_at THEN 'gone'
        WHEN over.pod_uid IS NULL THEN 'unlisted'
        WHEN over.phase IN ('Succeeded', 'Failed') AND coalesce(over.ended_at <= named.occurred_at, TRUE) THEN 'finished'
        ELSE 'elsewhere'
    END AS standing
FROM named
LEFT JOIN life AS held
    ON held.cluster = named.cluster AND held.pod_uid = named.bearer_uid AND held.device_uuid = named.device_uuid AND NOT held.is_reserved
LEFT JOIN life AS reserved
    ON reserved.cluster = named.cluster AND reserved.pod_uid = named.bearer_uid AND reserved.device_uuid = named.device_uuid AND reserved.is_reserved
LEFT JOIN over ON over.cluster = named.cluster AND over.pod_uid = named.bearer_uid
LEFT JOIN listed ON listed.cluster = named.cluster
WINDOW exporter AS (PARTITION BY named.cluster, named.origin, named.at_node)
