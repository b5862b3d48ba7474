-- What each container holds of each card, by its own grant, as of the last word of the sharing layer's exporters (where they said nothing of pods, as
-- of now): what their series are held against.
WITH
latest AS (
    SELECT home.cluster, coalesce(max(now.occurred_at), max(parameter.as_of_at)) AS last_at
    FROM (SELECT DISTINCT cluster FROM ledger.holding) AS home
    CROSS JOIN dim.parameter AS parameter
    LEFT JOIN dim.deviation_now AS now ON now.cluster = home.cluster
    GROUP BY home.cluster
)

SELECT
    holding.cluster, holding.pod_uid, holding.namespace, holding.pod, holding.device_uuid, holding.node, holding.gi, holding.unit_kind, holding.occupancy,
    holding.share_ppm, holding.memory_mib AS pod_memory_mib, holding.cores_percent AS pod_cores_percent, granted.container, granted.memory_mib, granted.cores_percent,
    holding.started_at,
    row_number() OVER (PARTITION BY holding.cluster, holding.pod_uid, holding.device_uuid, holding.gi ORDER BY granted.container) = 1 AS is_first
FROM ledger.holding AS holding
JOIN latest
    ON latest.cluster = holding.cluster AND holding.started_at <= latest.last_at
    AND coalesce(holding.ended_before_at, holding.ended_at, TIMESTAMP '9999-12-31') > latest.last_at
JOIN dim."grant" AS granted
    ON granted.cluster = holding.cluster AND granted.pod_uid = holding.pod_uid AND granted.device_uuid = holding.device_uuid
    AND granted.standing IN ('counts', 'suspect') AND granted.unit_id IS NOT DISTINCT FROM coalesce(holding.unit_id, granted.unit_id)
    AND list_contains(string_split(holding.containers, ','), granted.container)
WHERE holding.device_uuid IS NOT NULL AND holding.unit_kind IN ('vgpu', 'mig')
