-- What each holder is asked for: its declared share, from the charge start to the end of its holding, whatever stands beside it. tenant: whose it is; priced_tenant: the
-- same where a price or a discount names it. share_ppm is the declared share of one card, times the cards; NULL where it is not known.
-- A pod that is bound and was never seen running has no start under the policy `running`; a holder of which nobody tells when it ran starts with its holding.
WITH
named AS (
    SELECT tenant FROM dim.price_line WHERE tenant IS NOT NULL
    UNION
    SELECT tenant FROM dim.discount_line
),

holding AS (
    SELECT
        holding.cluster, holding.place_kind, holding.place_id, holding.node, holding.device_uuid, holding.pod_uid, holding.unit_id, holding.unit_kind,
        CASE WHEN holding.share_ppm <= 1000000000000 THEN holding.share_ppm END AS share_ppm,
        least(coalesce(holding.share_at_least_ppm, 0), 1000000000000) AS share_at_least_ppm,
        coalesce(pod.tenant, 'unmapped') AS tenant,
        epoch_us(holding.started_at) AS bound_us,
        CASE
            WHEN policy.charge_start = 'bind' THEN epoch_us(holding.started_at)
            WHEN holding.running_at IS NOT NULL THEN epoch_us(holding.running_at)
            WHEN pod.phase = 'Pending' THEN 4611686018427387904
            ELSE epoch_us(holding.started_at)
        END AS start_us,
        epoch_us(coalesce(holding.ended_at, holding.known_to_at)) AS end_us
    FROM ledger.holding AS holding
    CROSS JOIN dim.money_policy AS policy
    LEFT JOIN dim.pod AS pod ON pod.cluster = holding.cluster AND pod.pod_uid = holding.pod_uid
    WHERE holding.occupancy = 'held' AND coalesce(holding.ended_at, holding.known_to_at) > holding.started_at
)

SELECT
    row_number() OVER (
        ORDER BY holding.cluster, holding.place_kind, holding.place_id, holding.pod_uid, holding.unit_id, holding.bound_us, holding.end_us, holding.share_ppm,
        holding.share_at_least_ppm, holding.unit_kind
    ) AS holder_no,
    holding.cluster, holding.place_kind, holding.place_id, holding.node, holding.device_uuid, holding.pod_uid, holding.unit_id, holding.unit_kind,
    holding.tenant, named.tenant AS priced_tenant, holding.share_ppm, holding.share_at_least_ppm, holding.bound_us, place.model, place.commitment,
    greatest(holding.bound_us, holding.start_us, epoch_us(parameter.history_from_at)) AS from_us,
    least(holding.end_us, epoch_us(parameter.horizon_at)) AS to_us
FROM holding
CROSS JOIN dim.parameter AS parameter
JOIN dim.cost_place AS place
    ON place.cluster = holding.cluster AND place.place_kind = holding.place_kind AND place.place_id = holding.place_id
    AND place.node IS NOT DISTINCT FROM holding.node
LEFT JOIN named ON named.tenant = holding.tenant
