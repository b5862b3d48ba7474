-- The places that the cost ledger names, by number, with what prices them, whose they are and the memory of their card.
SELECT
    key.key_no, profile.profile_no, place.owner, place.cluster, place.place_kind, place.place_id, place.node, place.model, card.memory_mib
FROM dim.cost_place AS place
JOIN dim.price_profile AS profile
    ON profile.side = 'cost' AND profile.cluster = place.cluster AND profile.model IS NOT DISTINCT FROM place.model
    AND profile.unit_kind = place.unit_kind AND profile.commitment IS NOT DISTINCT FROM place.commitment
JOIN dim.cost_key AS key
    ON key.cluster = place.cluster AND key.place_kind = place.place_kind AND key.place_id = place.place_id AND key.node IS NOT DISTINCT FROM place.node
LEFT JOIN (SELECT cluster, device_uuid, max(memory_mib) AS memory_mib FROM dim.device GROUP BY cluster, device_uuid) AS card
    ON place.place_kind = 'device' AND card.cluster = place.cluster AND card.device_uuid = place.place_id
