-- Who stands in the rows of the two ledgers within a span: one number for each pod and unit, and for each owner of what no pod held. Its tenant, and
-- from when to when its rows belong to the period. key_hash: by which rows are told apart; a join over one number costs a tenth of one over names.
WITH seen AS (
  SELECT DISTINCT key_no, pod_uid, unit_id, CASE WHEN pod_uid IS NULL THEN tenant END AS owner, 'charge' AS ledger
  FROM ledger.charge_entry
  WHERE grain_at >= make_timestamp($from_us) AND grain_at < make_timestamp($to_us)
  UNION ALL
  SELECT DISTINCT key_no, pod_uid, unit_id, CASE WHEN pod_uid IS NULL THEN owner END, 'cost'
  FROM ledger.cost_entry
  WHERE grain_at >= make_timestamp($from_us) AND grain_at < make_timestamp($to_us)
),
named AS (
  SELECT DISTINCT place.cluster, place.cluster_no, seen.pod_uid, seen.unit_id, seen.owner
  FROM seen
  JOIN settling_key AS place ON place.key_no = seen.key_no AND place.ledger = seen.ledger
)
SELECT
  CAST(row_number() OVER (ORDER BY named.cluster, named.pod_uid, named.unit_id, named.owner) AS INTEGER) AS holder_no,
  hash(named.cluster_no, named.pod_uid, named.unit_id, named.owner) AS key_hash, named.cluster, named.pod_uid, named.unit_id, named.owner,
  coalesce(named.owner, pod.tenant, CASE WHEN named.pod_uid IS NOT NULL THEN 'unmapped' END) AS tenant,
  coalesce(zone.from_at, make_timestamp($period_from_us)) AS from_at,
  coalesce(zone.to_at, make_timestamp($period_to_us)) AS to_at
FROM named
LEFT JOIN dim.pod AS pod ON pod.cluster = named.cluster AND pod.pod_uid = named.pod_uid
LEFT JOIN settling_zone AS zone
  ON zone.tenant = coalesce(named.owner, pod.tenant, CASE WHEN named.pod_uid IS NOT NULL THEN 'unmapped' END)
