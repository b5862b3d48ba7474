-- When a card is granted whole to a pod, to nobody beside it, on nodes where others hold cards that no source names: theirs is another one. The one rule for
-- `usage` and `gpu_state`. A card that may be shared (dim.usage_shareable), a part of a card and a claim in suspense are no proof.
SELECT
    holding.cluster, holding.device_uuid, holding.pod_uid, epoch_us(holding.started_at) AS from_us,
    epoch_us(coalesce(holding.ended_at, holding.known_to_at)) AS to_us
FROM ledger.holding AS holding
WHERE holding.device_uuid IS NOT NULL AND holding.occupancy = 'held' AND holding.unit_kind = 'gpu' AND holding.share_ppm >= 1000000
    AND coalesce(holding.ended_at, holding.known_to_at) > holding.started_at
    AND EXISTS (
        SELECT 1
        FROM dim.device AS card
        JOIN ledger.holding AS unplaced ON unplaced.cluster = card.cluster AND unplaced.place_kind = 'node' AND unplaced.place_id = card.node
        WHERE card.cluster = holding.cluster AND card.device_uuid = holding.device_uuid
    )
    AND NOT EXISTS (
        SELECT 1
        FROM dim.usage_shareable AS shareable
        WHERE shareable.cluster = holding.cluster AND shareable.device_uuid = holding.device_uuid
    )
