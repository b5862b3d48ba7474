-- From the key numbers of a ledger to those of places, and a number for each cluster.
SELECT key.key_no, place.place_no, place.cluster, CAST(dense_rank() OVER (ORDER BY place.cluster) AS INTEGER) AS cluster_no, key.ledger
FROM (
  SELECT *, 'charge' AS ledger FROM ledger.charge_key
  UNION ALL
  SELECT *, 'cost' FROM ledger.cost_key
) AS key
JOIN settling_place AS place
  ON place.cluster IS NOT DISTINCT FROM key.cluster AND place.place_kind IS NOT DISTINCT FROM key.place_kind
  AND place.place_id IS NOT DISTINCT FROM key.place_id AND place.node IS NOT DISTINCT FROM key.node
  AND place.device_uuid IS NOT DISTINCT FROM key.device_uuid
