-- The intervals behind the rows: from when to when each holder held what, for drilling down.
SELECT DISTINCT
  holding.cluster, holding.pod_uid, holding.unit_id, holding.device_uuid, holding.place_id, holding.share_ppm, holding.started_at, holding.running_at,
  holding.ended_at, holding.known_to_at
FROM ledger.holding AS holding
SEMI JOIN settling_holder AS holder ON holder.cluster = holding.cluster AND holder.pod_uid = holding.pod_uid
WHERE holding.started_at < make_timestamp($to_us) AND coalesce(holding.ended_at, holding.known_to_at) > make_timestamp($from_us)
