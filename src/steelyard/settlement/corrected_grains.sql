-- The grains of one holder at one place between two instants: as a closed period has them beside what the charge ledger says now.
WITH closed AS (
  SELECT
    'closed' AS side, row.grain_at, tariff.line, row.quantity_gpu_us, row.list_micro, row.discount_micro, row.charge_micro, tariff.price_id, place.cluster,
    pod.pod_uid, pod.unit_id, place.node, place.device_uuid
  FROM read_parquet('$foldercharge.parquet') AS row
  JOIN read_parquet('$foldertariffs.parquet') AS tariff ON tariff.tariff_no = row.tariff_no
  JOIN read_parquet('$folderplaces.parquet') AS place ON place.place_no = row.place_no
  JOIN read_parquet('$folderpods.parquet') AS pod ON pod.holder_no = row.holder_no AND pod.epoch_no = 0
),
both_sides AS (
  SELECT * FROM closed
  UNION ALL
  SELECT
    'now', grain_at, line, quantity_gpu_us, list_micro, discount_micro, charge_micro, price_id, cluster, pod_uid, unit_id, node, device_uuid
  FROM ledger.charge
)
SELECT side, epoch_us(grain_at), line, quantity_gpu_us, list_micro, discount_micro, charge_micro, price_id
FROM both_sides
WHERE grain_at >= make_timestamp($from_us) AND grain_at < make_timestamp($to_us) AND cluster = ? AND pod_uid IS NOT DISTINCT FROM ?
  AND unit_id IS NOT DISTINCT FROM ? AND node IS NOT DISTINCT FROM ? AND device_uuid IS NOT DISTINCT FROM ?
ORDER BY grain_at, side, line, price_id
