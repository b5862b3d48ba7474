-- Every holding with what money asks of it: whose it is, when it is held, when it ran, and the part of its start that is the platform's: what takes longer than the policy allows,
-- where an event of the pod tells of a fault of the platform before it ran (starting_from_us NULL: none). Times are microseconds since 1970.
WITH
blamed AS (
    SELECT DISTINCT cluster, subject_uid AS pod_uid, epoch_us(coalesce(first_at, occurred_at)) AS event_us
    FROM fact.event
    WHERE kind = 'kubernetes' AND subject_uid IS NOT NULL AND is_platform_cause(reason, message)
),

holding AS (
    SELECT
        holding.cluster, holding.place_kind, holding.place_id, holding.node, holding.pod_uid, holding.unit_id,
        min(holding.unit_kind) OVER (PARTITION BY holding.cluster, holding.place_kind, holding.place_id, holding.pod_uid, holding.unit_id) AS unit_kind, holding.occupancy,
        CASE WHEN holding.share_ppm <= 1000000000000 THEN holding.share_ppm END AS share_ppm,
        least(coalesce(holding.share_at_least_ppm, 0), 1000000000000) AS share_at_least_ppm,
        coalesce(pod.tenant, 'unmapped') AS tenant, coalesce(pod.phase = 'Pending', FALSE) AS is_pending,
        greatest(epoch_us(holding.started_at), epoch_us(parameter.history_from_at)) AS bound_us,
        least(epoch_us(coalesce(holding.ended_at, holding.known_to_at)), epoch_us(parameter.horizon_at)) AS end_us,
        epoch_us(holding.running_at) AS running_us
    FROM ledger.holding AS holding
    CROSS JOIN dim.parameter AS parameter
    LEFT JOIN dim.pod AS pod ON pod.cluster = holding.cluster AND pod.pod_uid = holding.pod_uid
    WHERE holding.occupancy <> 'in_suspense' AND coalesce(holding.ended_at, holding.known_to_at) > holding.started_at
),

late AS (
    SELECT DISTINCT holding.cluster, holding.place_kind, holding.place_id, holding.pod_uid, holding.unit_id, holding.bound_us
    FROM holding
    CROSS JOIN dim.money_policy AS policy
    JOIN blamed
        ON blamed.cluster = holding.cluster AND blamed.pod_uid = holding.pod_uid AND blamed.event_us >= holding.bound_us
        AND blamed.event_us <= coalesce(holding.running_us, holding.end_us)
    WHERE holding.occupancy = 'held' AND (holding.running_us IS NOT NULL OR holding.is_pending)
        AND coalesce(holding.running_us, holding.end_us) > holding.bound_us + policy.platform_start_us
)

SELECT
    holding.*,
    CASE WHEN late.bound_us IS NOT NULL THEN holding.bound_us + policy.platform_start_us END AS starting_from_us,
    CASE WHEN late.bound_us IS NOT NULL THEN least(coalesce(holding.running_us, holding.end_us), holding.end_us) END AS starting_to_us
FROM holding
CROSS JOIN dim.money_policy AS policy
CROSS JOIN (SELECT side FROM dim.price_line LIMIT 1) AS priced
LEFT JOIN late
    ON late.cluster = holding.cluster AND late.place_kind = holding.place_kind AND late.place_id = holding.place_id AND late.pod_uid = holding.pod_uid
    AND late.unit_id IS NOT DISTINCT FROM holding.unit_id AND late.bound_us = holding.bound_us AND holding.occupancy = 'held'
WHERE holding.end_us > holding.bound_us
