-- Who holds what of which card, from when to when; an end that is not known lies beyond all time. over_us: the latest instant at which it may have ended.
SELECT
    holding.cluster, holding.pod_uid, holding.device_uuid, coalesce(holding.gi, unit.gi) AS gi, holding.node, holding.unit_kind, holding.occupancy,
    coalesce(holding.share_ppm >= 1000000, FALSE) AS is_whole, holding.memory_mib, holding.cores_percent,
    epoch_us(holding.started_at) AS from_us,
    CASE WHEN holding.ended_at IS NULL THEN 4611686018427387904 ELSE epoch_us(holding.ended_at) END AS to_us,
    CASE
        WHEN holding.ended_at IS NULL THEN 4611686018427387904
        ELSE greatest(epoch_us(holding.ended_at), coalesce(epoch_us(holding.ended_before_at), 0))
    END AS over_us
FROM ledger.holding AS holding
LEFT JOIN dim.unit AS unit ON unit.cluster = holding.cluster AND unit.unit_id = holding.unit_id
