-- name: jobs
-- One row per job: the root of the owner chain of its requests (a RayJob for its clusters and pods, a JobSet for its jobs), of a CronJob each of its jobs.
-- What serves without end (Deployments and the like), a node's own pods and pods alone are no jobs. Jobs of which a request was made in the window.
-- The $rows_max that held most, in their order; of the others one row for all that are alike in what the figures look at, with jobs_count.
WITH rooted AS (
  SELECT
    d.*, o.outcome, o.attempts_count, o.pods_seen_count AS pods_count_seen, o.pods_succeeded_count, o.pods_failed_count, o.pods_preempted_count,
    CASE WHEN w.root_kind = 'CronJob' THEN w.object_kind WHEN w.root_kind IS NOT NULL THEN w.root_kind ELSE d.workload_kind END AS job_kind,
    CASE WHEN w.root_kind = 'CronJob' THEN w.object_name WHEN w.root_kind IS NOT NULL THEN w.root_name ELSE d.workload_name END AS job_name
  FROM dim.demand AS d
  LEFT JOIN dim.outcome AS o ON o.cluster = d.cluster AND o.demand_id = d.demand_id
  LEFT JOIN dim.gang AS g ON g.cluster = d.cluster AND g.object_uid = d.demand_id AND d.demand_kind <> 'pod'
  LEFT JOIN dim.pod_owner AS p ON p.cluster = d.cluster AND p.pod_uid = d.demand_id AND d.demand_kind = 'pod'
  LEFT JOIN dim.workload AS w
    ON w.cluster = d.cluster AND w.object_uid = coalesce(g.owner_uid, p.owner_uid) AND w.object_kind NOT IN ('Pod', 'Workload', 'Node')
  WHERE is_among(d.cluster, $cluster_wanted) AND is_among(d.queue, $queue_wanted) AND is_among(d.namespace, $namespace_wanted)
    AND is_among(d.tenant, $tenant_wanted) AND is_among(d.priority, $priority_wanted) AND is_among(d.person, $person_wanted)
    AND is_among(d.workload_kind || '/' || d.workload_name, $workload_wanted) AND is_one_of(d.demand_id, $demand_id_wanted::VARCHAR[])
),
requests AS (
  SELECT *
  FROM rooted
  WHERE job_kind IS NOT NULL AND job_name IS NOT NULL
    AND job_kind NOT IN ('Deployment', 'ReplicaSet', 'ReplicationController', 'StatefulSet', 'DaemonSet', 'Node', 'Pod', 'CronJob', 'Workload', 'PodGroup')
),
wanted AS (
  SELECT DISTINCT cluster, namespace, job_kind, job_name
  FROM requests
  WHERE coalesce(created_at, first_seen_at) >= make_timestamp($from_us::BIGINT) AND coalesce(created_at, first_seen_at) < make_timestamp($to_us::BIGINT)
),
mine AS (SELECT r.* FROM requests AS r SEMI JOIN wanted AS w USING (cluster, namespace, job_kind, job_name)),
waited AS (
  SELECT
    w.cluster, w.demand_id, CAST(sum(epoch_us(w.known_to_at) - epoch_us(w.started_at)) FILTER (WHERE w.unknown_reason IS NULL) AS BIGINT) AS wait_us,
    count(*) FILTER (WHERE w.ended_at IS NULL) > 0 AS is_waiting, count(*) FILTER (WHERE w.unknown_reason IS NOT NULL) AS lost_count
  FROM ledger.wait AS w
  SEMI JOIN mine AS m ON m.cluster = w.cluster AND m.demand_id = w.demand_id
  WHERE w.stage IN ('queue', 'gate', 'scheduler')
  GROUP BY w.cluster, w.demand_id
),
evicted AS (
  SELECT s.cluster, s.demand_id, count(*) AS evictions_count
  FROM dim.step AS s
  SEMI JOIN mine AS m ON m.cluster = s.cluster AND m.demand_id = s.demand_id
  WHERE s.step = 'evicted'
  GROUP BY s.cluster, s.demand_id
),
held AS (
  SELECT
    m.cluster, m.demand_id,
    CAST(sum(h.share_at_least_ppm::HUGEINT * (epoch_us(h.known_to_at) - epoch_us(h.started_at)) // 1000000) AS BIGINT) AS gpu_us,
    count(*) FILTER (WHERE h.share_ppm IS NULL) AS unknown_count
  FROM dim.demand_pod AS m
  JOIN ledger.holding AS h ON h.cluster = m.cluster AND h.pod_uid = m.pod_uid AND h.occupancy = 'held'
  SEMI JOIN mine AS r ON r.cluster = m.cluster AND r.demand_id = m.demand_id
  GROUP BY m.cluster, m.demand_id
),
-- What its pods say of its speed, by the annotation of the settings: of each pod its last word. rate_micro: millionths of a sample per second; NULL = no
-- number of 0 or more below a billion. The largest counts where several say it: each says what the whole job does.
rates AS (
  SELECT cluster, demand_id, max(rate_micro) AS rate_micro, count(*) AS said_count
  FROM (
    SELECT
      m.cluster, m.demand_id, m.pod_uid, arg_min(
        CASE WHEN length(word) <= 40 AND TRY_CAST(word AS DECIMAL(38, 6)) BETWEEN 0 AND 999999999 THEN CAST(TRY_CAST(word AS DECIMAL(38, 6)) * 1000000 AS BIGINT) END,
        position
      ) FILTER (WHERE word IS NOT NULL) AS rate_micro,
      count(word) AS words_count
    FROM (
      SELECT
        m.cluster, m.demand_id, m.pod_uid, a.position,
        json_extract_string(p.annotations, '/' || replace(replace(a.key, '~', '~0'), '/', '~1')) AS word
      FROM dim.rate_annotation AS a
      JOIN dim.pod AS p ON contains(p.annotations, a.key)
      JOIN dim.demand_pod AS m ON m.cluster = p.cluster AND m.pod_uid = p.pod_uid
      SEMI JOIN mine AS r ON r.cluster = m.cluster AND r.demand_id = m.demand_id
    ) AS m
    GROUP BY m.cluster, m.demand_id, m.pod_uid
  ) AS each_pod
  WHERE words_count > 0
  GROUP BY cluster, demand_id
),
-- How the job itself says that it stands; of several under one name the last.
own AS (
  SELECT
    cluster, namespace, object_kind AS job_kind, name AS job_name, arg_max(coalesce(outcome, ''), (created_at, object_uid)) AS outcome,
    arg_max(coalesce(retry_count, -1), (created_at, object_uid)) AS retry_count, count(*) AS words_count,
    count(finished_at) = count(*) AS is_finished, max(finished_at) AS finished_at
  FROM dim.job
  GROUP BY cluster, namespace, object_kind, name
),
job AS (
  SELECT
    m.cluster, m.job_kind, m.namespace, m.job_name, min(m.tenant) AS tenant, min(m.person) AS person, min(m.queue) AS queue, count(*) AS requests_count,
    TRY_CAST(sum(m.gpu_milli) AS BIGINT) AS gpu_milli, count(m.gpu_milli) = count(*) AS gpus_known, epoch_us(min(coalesce(m.created_at, m.first_seen_at))) AS created_us,
    CASE WHEN any_value(j.is_finished) THEN epoch_us(any_value(j.finished_at)) WHEN count(m.end_kind) = count(*) THEN epoch_us(max(m.ended_at)) END AS ended_us,
    CAST(max(w.wait_us) AS BIGINT) AS wait_us, coalesce(bool_or(w.is_waiting), FALSE) AS is_waiting, CAST(coalesce(sum(w.lost_count), 0) AS BIGINT) AS lost_count,
    CAST(coalesce(sum(e.evictions_count), 0) AS BIGINT) AS evictions_count,
    CASE
      WHEN any_value(j.retry_count) >= 0 THEN any_value(j.retry_count) ELSE CAST(coalesce(sum(greatest(m.attempts_count - 1, 0)), 0) AS BIGINT)
    END AS retries_count,
    CAST(sum(coalesce(m.pods_failed_count, 0)) AS BIGINT) AS pods_failed_count, CAST(sum(coalesce(m.pods_count_seen, 0)) AS BIGINT) AS pods_seen_count,
    CAST(coalesce(sum(m.pods_count) FILTER (WHERE m.demand_kind <> 'pod'), 0) AS BIGINT) AS pods_asked_count,
    list_sort(list_distinct(list(m.outcome) FILTER (WHERE m.outcome IS NOT NULL AND m.demand_kind <> 'pod'))) AS outcomes,
    list_sort(list_distinct(list(m.outcome) FILTER (WHERE m.outcome IS NOT NULL AND m.demand_kind = 'pod'))) AS pod_outcomes,
    nullif(any_value(j.outcome), '') AS own_outcome, count(j.words_count) > 0 AS has_own_word,
    count(*) FILTER (WHERE m.demand_kind <> 'pod') AS gangs_count, count(*) FILTER (WHERE m.end_kind IS NULL) AS living_count,
    CAST(coalesce(sum(h.gpu_us), 0) AS BIGINT) AS gpu_us, CAST(coalesce(sum(h.unknown_count), 0) AS BIGINT) AS shares_unknown_count,
    count(h.demand_id) AS holders_count, max(s.rate_micro) AS rate_micro, CAST(coalesce(sum(s.said_count), 0) AS BIGINT) AS rates_said_count
  FROM mine AS m
  LEFT JOIN waited AS w ON w.cluster = m.cluster AND w.demand_id = m.demand_id
  LEFT JOIN evicted AS e ON e.cluster = m.cluster AND e.demand_id = m.demand_id
  LEFT JOIN held AS h ON h.cluster = m.cluster AND h.demand_id = m.demand_id
  LEFT JOIN rates AS s ON s.cluster = m.cluster AND s.demand_id = m.demand_id
  LEFT JOIN own AS j ON j.cluster = m.cluster AND j.namespace = m.namespace AND j.job_kind = m.job_kind AND j.job_name = m.job_name
  GROUP BY m.cluster, m.job_kind, m.namespace, m.job_name
),
ranked AS (
  SELECT *, row_number() OVER (ORDER BY gpu_us DESC, created_us, cluster, namespace, job_kind, job_name) AS place FROM job
),
rest AS (
  SELECT
    own_outcome, has_own_word, outcomes, pod_outcomes, least(living_count, 1) AS living_count, least(gangs_count, 1) AS gangs_count,
    ended_us IS NOT NULL AS is_ended, gpu_milli > 0 AS asks_gpus, gpus_known, least(holders_count, 1) AS holders_count,
    least(shares_unknown_count, 1) AS shares_unknown_count, pods_seen_count > 0 AS is_seen, pods_seen_count < pods_asked_count AS is_seen_in_part,
    gpu_us, ended_us
  FROM ranked
  WHERE place > $rows_max
)
SELECT *, 1 AS jobs_count FROM ranked WHERE place <= $rows_max
UNION ALL BY NAME
SELECT
  own_outcome, has_own_word, outcomes, pod_outcomes, living_count, gangs_count, CAST(max(ended_us) AS BIGINT) AS ended_us,
  CASE WHEN asks_gpus THEN 1 ELSE 0 END AS gpu_milli, gpus_known, holders_count, shares_unknown_count,
  CASE WHEN is_seen THEN 1 ELSE 0 END AS pods_seen_count, CASE WHEN is_seen_in_part THEN 2 ELSE 1 END AS pods_asked_count,
  TRY_CAST(sum(gpu_us) AS BIGINT) AS gpu_us, count(*) AS jobs_count
FROM rest
GROUP BY
  own_outcome, has_own_word, outcomes, pod_outcomes, living_count, gangs_count, is_ended, asks_gpus, gpus_known, holders_count, shares_unknown_count,
  is_seen, is_seen_in_part
ORDER BY place NULLS LAST;
