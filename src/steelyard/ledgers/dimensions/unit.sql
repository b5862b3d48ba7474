-- One row per unit that can be held: what is known of it, the latest word of each column first.
WITH aged AS (
  SELECT *, row_number() OVER (PARTITION BY cluster, unit_id ORDER BY occurred_at DESC, fact_id) AS age
  FROM fact.unit
)
SELECT
  cluster,
  unit_id,
  min_by(unit_kind, age) AS unit_kind,
  min_by(device_uuid, age) FILTER (WHERE device_uuid IS NOT NULL) AS device_uuid,
  min_by(node, age) FILTER (WHERE node IS NOT NULL) AS node,
  min_by(gi, age) FILTER (WHERE gi IS NOT NULL) AS gi,
  min_by(ci, age) FILTER (WHERE ci IS NOT NULL) AS ci,
  min_by(profile, age) FILTER (WHERE profile IS NOT NULL) AS profile,
  min_by(placement_start, age) FILTER (WHERE placement_start IS NOT NULL) AS placement_start,
  min_by(placement_size, age) FILTER (WHERE placement_size IS NOT NULL) AS placement_size,
  min_by(memory_mib, age) FILTER (WHERE memory_mib IS NOT NULL) AS memory_mib,
  min_by(sm_count, age) FILTER (WHERE sm_count IS NOT NULL) AS sm_count,
  min_by(replicas, age) FILTER (WHERE replicas IS NOT NULL) AS replicas,
  min(occurred_at) AS valid_from_at,
  CAST(NULL AS TIMESTAMP) AS valid_to_at,
  min(occurred_at) AS first_seen_at,
  max(occurred_at) AS last_seen_at
FROM aged
GROUP BY cluster, unit_id
