-- One row per pod that a request names: the latest sighting tells its state, and every stamp is the latest that any sighting knew.
-- gone_by_at: the first complete listing of the same source without it, the creation of its successor of the same name, or the instant at which
-- a watch found it gone. deleted_at: that instant, where the watch saw the deletion itself, so that the pod was there until then.
-- min_by passes over rows in which the value is not known.
WITH sightings AS (
  SELECT cluster, pod_uid, occurred_at AS seen_at FROM fact.request
  UNION ALL
  SELECT cluster, object_uid, occurred_at FROM fact.sighting WHERE object_kind = 'pod'
  UNION ALL
  SELECT r.cluster, r.pod_uid, s.observed_to_at
  FROM fact.request AS r
  JOIN fact.source_status AS s
    ON s.cluster = r.cluster AND s.source = r.source AND s.kind = 'trace'
    AND coalesce(s.import_id, '') = coalesce(r.import_id, '')
  WHERE s.observed_to_at IS NOT NULL
),
seen AS (
  SELECT cluster, pod_uid, min(seen_at) AS first_seen_at, max(seen_at) AS last_seen_at
  FROM sightings
  GROUP BY cluster, pod_uid
),
-- A stamp from before 1970 or from a day after the pod was last seen is a broken clock or an empty field: it is left out.
aged AS (
  SELECT
    r.*,
    plausible_stamp(r.created_at, s.last_seen_at) AS good_created_at,
    plausible_stamp(r.scheduled_at, s.last_seen_at) AS good_scheduled_at,
    plausible_stamp(r.started_at, s.last_seen_at) AS good_started_at,
    plausible_stamp(r.first_container_at, s.last_seen_at) AS good_first_container_at,
    plausible_stamp(r.init_done_at, s.last_seen_at) AS good_init_done_at,
    plausible_stamp(r.last_container_end_at, s.last_seen_at) AS good_last_container_end_at,
    row_number() OVER (PARTITION BY r.cluster, r.pod_uid ORDER BY r.occurred_at DESC, r.fact_id) AS age
  FROM fact.request AS r
  JOIN seen AS s ON s.cluster = r.cluster AND s.pod_uid = r.pod_uid
),
merged AS (
  SELECT
    cluster, pod_uid,
    min_by(source, age) AS source,
    min_by(namespace, age) AS namespace,
    min_by(pod, age) AS pod,
    min_by(node, age) AS node,
    min_by(phase, age) AS phase,
    min_by(phase, age) IN ('Succeeded', 'Failed') AS terminal,
    min_by(rejected, age) AS rejected,
    min_by(status_reason, age) FILTER (WHERE age = 1) AS status_reason,
    min_by(scheduler, age) AS scheduler,
    min_by(queue, age) AS queue,
    min_by(qos, age) AS qos,
    min_by(priority, age) AS priority,
    min_by(outcome, age) AS outcome,
    min_by(outcome_by, age) AS outcome_by,
    min_by(outcome_cause, age) AS outcome_cause,
    min_by(failure_class, age) AS failure_class,
    min_by(gpu_count, age) AS gpu_count,
    min_by(gpu_milli, age) AS requested_gpu_milli,
    min_by(memory_mib, age) AS requested_memory_mib,
    min_by(cores_percent, age) AS requested_cores_percent,
    min_by(resource_names, age) AS resource_names,
    min_by(gpu_model, age) AS gpu_model,
    min_by(cpu_milli, age) FILTER (WHERE cpu_milli BETWEEN 0 AND 1000000000) AS cpu_milli,
    min_by(init_count, age) AS init_count,
    max(CASE WHEN age = 1 THEN unreachable_toleration_us END) AS unreachable_toleration_us,
    min_by(good_created_at, age) AS created_at,
    min_by(good_scheduled_at, age) AS scheduled_at,
    min_by(good_started_at, age) AS started_at,
    min_by(good_first_container_at, age) AS first_container_at,
    min_by(good_init_done_at, age) AS init_done_at,
    min_by(good_last_container_end_at, age) AS last_container_end_at,
    min_by(deletion_at, age) AS deletion_at,
    max(CASE WHEN created_at IS NOT NULL AND good_created_at IS NULL
      OR scheduled_at IS NOT NULL AND good_scheduled_at IS NULL
      OR started_at IS NOT NULL AND good_started_at IS NULL
      OR first_container_at IS NOT NULL AND good_first_container_at IS NULL
      OR init_done_at IS NOT NULL AND good_init_done_at IS NULL
      OR last_container_end_at IS NOT NULL AND good_last_container_end_at IS NULL
      THEN 1 ELSE 0 END) = 1 AS stamps_refused,
    max(occurred_at) FILTER (WHERE phase NOT IN ('Succeeded', 'Failed')) AS alive_seen_at,
    min(occurred_at) FILTER (WHERE phase IN ('Succeeded', 'Failed')) AS terminal_seen_at,
    min(occurred_at) FILTER (WHERE phase NOT IN ('Succeeded', 'Failed') AND node IS NOT NULL) AS bound_seen_at
  FROM aged
  GROUP BY cluster, pod_uid
),
-- A listing of one namespace says nothing of the pods of another: each pod is missed by listings that reach it.
listings AS (
  SELECT DISTINCT cluster, source, scope, occurred_at
  FROM fact.source_status
  WHERE kind = 'pods' AND (scope = 'cluster' OR scope LIKE 'namespace/%') AND complete AND status = 'ok' AND observed_to_at IS NULL
),
reaches AS (
  SELECT m.cluster, m.source, m.pod_uid, reach.scope, s.last_seen_at
  FROM merged AS m
  JOIN seen AS s ON s.cluster = m.cluster AND s.pod_uid = m.pod_uid
  JOIN (SELECT DISTINCT cluster, source, scope FROM listings) AS reach
    ON reach.cluster = m.cluster AND reach.source = m.source AND reach.scope IN ('cluster', 'namespace/' || m.namespace)
),
timeline AS (
  SELECT cluster, source, scope, pod_uid, last_seen_at AS moment_at, CAST(NULL AS TIMESTAMP) AS listing_at, 1 AS place
  FROM reaches
  UNION ALL
  SELECT cluster, source, scope, NULL, occurred_at, occurred_at, 0 FROM listings
),
absences AS (
  SELECT cluster, pod_uid, min(missing_at) AS missing_at
  FROM (
    SELECT
      cluster, pod_uid,
      min(listing_at) OVER (
        PARTITION BY cluster, source, scope ORDER BY moment_at, place, pod_uid
        ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
      ) AS missing_at
    FROM timeline
  ) AS missed
  WHERE pod_uid IS NOT NULL
  GROUP BY cluster, pod_uid
),
gone AS (
  SELECT cluster, object_uid AS pod_uid, min(occurred_at) AS gone_at
  FROM fact.sighting
  WHERE object_kind = 'pod_gone'
  GROUP BY cluster, object_uid
),
-- A stretch that a watch saw throughout says of every pod that it was there, unless a word of its end came before.
stretches AS (
  SELECT DISTINCT cluster, source, observed_to_at
  FROM fact.source_status
  WHERE kind = 'pods' AND scope = 'cluster' AND complete AND status = 'ok' AND observed_to_at > observed_from_at
),
successors AS (
  SELECT
    m.cluster, m.pod_uid,
    lead(coalesce(m.created_at, s.first_seen_at)) OVER (
      PARTITION BY m.cluster, m.source, m.namespace, m.pod ORDER BY coalesce(m.created_at, s.first_seen_at), m.pod_uid
    ) AS successor_at
  FROM merged AS m
  JOIN seen AS s ON s.cluster = m.cluster AND s.pod_uid = m.pod_uid
),
ends AS (
  SELECT
    m.cluster, m.source, m.pod_uid, s.first_seen_at, s.last_seen_at,
    least(a.missing_at, n.successor_at, g.gone_at) AS gone_by_at,
    CASE WHEN g.gone_at <= s.last_seen_at THEN g.gone_at END AS deleted_at
  FROM merged AS m
  JOIN seen AS s ON s.cluster = m.cluster AND s.pod_uid = m.pod_uid
  LEFT JOIN absences AS a ON a.cluster = m.cluster AND a.pod_uid = m.pod_uid
  LEFT JOIN successors AS n ON n.cluster = m.cluster AND n.pod_uid = m.pod_uid
  LEFT JOIN gone AS g ON g.cluster = m.cluster AND g.pod_uid = m.pod_uid
),
-- The last stretch that ended before the pod was missed; of a pod that is there still, simply the last one.
bounds AS (
  SELECT cluster, source, pod_uid, coalesce(gone_by_at, TIMESTAMP '9999-12-31') AS before_at FROM ends
),
watched AS (
  SELECT b.cluster, b.pod_uid, t.observed_to_at AS watched_to_at
  FROM bounds AS b
  ASOF JOIN stretches AS t ON t.cluster = b.cluster AND t.source = b.source AND b.before_at >= t.observed_to_at
)
SELECT
  m.*, e.first_seen_at, greatest(e.last_seen_at, w.watched_to_at) AS last_seen_at, e.gone_by_at, e.deleted_at
FROM merged AS m
JOIN ends AS e ON e.cluster = m.cluster AND e.pod_uid = m.pod_uid
LEFT JOIN watched AS w ON w.cluster = m.cluster AND w.pod_uid = m.pod_uid
