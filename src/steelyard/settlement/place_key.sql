-- From the key numbers of a ledger to those of places.
SELECT key.key_no, place.place_no, place.cluster, 'charge' AS ledger
FROM ledger.charge_key AS key
JOIN settling_place AS place
  ON place.cluster IS NOT DISTINCT FROM key.cluster AND place.place_kind IS NOT DISTINCT FROM key.place_kind
  AND place.place_id IS NOT DISTINCT FROM key.place_id AND place.node IS NOT DISTINCT FROM key.node
  AND place.device_uuid IS NOT DISTINCT FROM key.device_uuid
UNION ALL
SELECT key.key_no, place.place_no, place.cluster, 'cost'
FROM ledger.cost_key AS key
JOIN settling_place AS place
  ON place.cluster IS NOT DISTINCT FROM key.cluster AND place.place_kind IS NOT DISTINCT FROM key.place_kind
  AND place.place_id IS NOT DISTINCT FROM key.place_id AND place.node IS NOT DISTINCT FROM key.node
  AND place.device_uuid IS NOT DISTINCT FROM key.device_uuid
