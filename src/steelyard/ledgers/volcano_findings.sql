-- What no single object of Volcano's shows: pod groups that hold a queue's quota without a pod, and counts that nobody keeps. A pod group whose owner was
-- scaled to nothing stays Inqueue and what it asks for stays taken from the queue, so others wait while a dashboard shows room. That a pod is missing is
-- said only where all pods were listed after the group was let in. In a watched cluster only words that have stood for 5 minutes count.
WITH
listed AS (
  SELECT cluster, max(coalesce(observed_to_at, occurred_at)) AS listed_at
  FROM fact.source_status
  WHERE kind = 'pods' AND scope = 'cluster' AND complete AND status = 'ok'
  GROUP BY cluster
),
settling AS (
  SELECT DISTINCT status.cluster, parameter.as_of_at - INTERVAL 5 MINUTE AS settled_at
  FROM fact.source_status AS status
  CROSS JOIN dim.parameter AS parameter
  WHERE status.kind = 'podgroups.scheduling.volcano.sh' AND status.status = 'ok' AND status.observed_to_at > status.observed_from_at
),
pod_group AS (
  SELECT
    gang.cluster, gang.object_uid, gang.namespace, gang.object_name AS name, gang.queue, gang.phase, gang.created_at, gang.gpu_milli, gang.demand,
    gang.occurred_at, known.last_seen_at
  FROM fact.gang AS gang
  JOIN dim.gang AS known ON known.word_no = gang.rowid AND known.gone_at IS NULL
  WHERE gang.object_kind = 'PodGroup' AND gang.object_group = 'scheduling.volcano.sh'
),
spoken AS (
  SELECT cluster, subject_uid, max(occurred_at) AS spoken_at
  FROM fact.decision
  WHERE source = 'volcano' AND evidence = 'condition' AND subject_uid IS NOT NULL
  GROUP BY cluster, subject_uid
),
inqueue AS (
  SELECT pod_group.*, greatest(pod_group.created_at, spoken.spoken_at) AS since_at
  FROM pod_group
  LEFT JOIN spoken ON spoken.cluster = pod_group.cluster AND spoken.subject_uid = pod_group.object_uid
  WHERE pod_group.phase = 'Inqueue'
),
member AS (
  SELECT DISTINCT
    owner.cluster, owner.namespace,
    coalesce(
      nullif(json_extract_string(owner.annotations, '/scheduling.k8s.io~1group-name'), ''),
      json_extract_string(owner.annotations, '/scheduling.volcano.sh~1group-name')
    ) AS pod_group
  FROM dim.pod_owner AS owner
  JOIN dim.pod_life AS life ON life.cluster = owner.cluster AND life.pod_uid = owner.pod_uid
  WHERE contains(owner.annotations, '/group-name') AND life.gone_by_at IS NULL AND life.phase NOT IN ('Succeeded', 'Failed')
),
stale AS (
  SELECT inqueue.*, epoch_us(inqueue.last_seen_at) // 1000000 - epoch_us(inqueue.since_at) // 1000000 AS age_seconds
  FROM inqueue
  JOIN listed ON listed.cluster = inqueue.cluster AND listed.listed_at >= inqueue.since_at
  ANTI JOIN member ON member.cluster = inqueue.cluster AND member.namespace = inqueue.namespace AND member.pod_group = inqueue.name
  WHERE inqueue.last_seen_at - inqueue.since_at >= INTERVAL 10 MINUTE
),
queue AS (
  SELECT cluster, queue, pending_claimed, reserving_claimed, admitted_claimed, occurred_at
  FROM fact.queue
  WHERE source = 'volcano' AND queue_kind = 'volcano_queue'
  QUALIFY row_number() OVER (PARTITION BY cluster, natural_key ORDER BY occurred_at DESC, fact_id) = 1
),
queue_watch AS (
  SELECT cluster, max(observed_to_at) AS told_to_at
  FROM fact.source_status
  WHERE kind = 'queues.scheduling.volcano.sh' AND status = 'ok' AND observed_to_at > observed_from_at
  GROUP BY cluster
),
-- More in the status than there are is no contradiction: a part of them may be in another dump.
counted AS (
  SELECT
    queue.cluster, queue.queue, any_value(queue.pending_claimed) AS pending_claimed, any_value(queue.reserving_claimed) AS inqueue_claimed,
    any_value(queue.admitted_claimed) AS running_claimed, count(*) FILTER (WHERE pod_group.phase = 'Pending') AS pending,
    count(*) FILTER (WHERE pod_group.phase = 'Inqueue') AS inqueue, count(*) FILTER (WHERE pod_group.phase = 'Running') AS running
  FROM queue
  JOIN pod_group ON pod_group.cluster = queue.cluster AND pod_group.queue = queue.queue
  LEFT JOIN settling ON settling.cluster = queue.cluster
  LEFT JOIN queue_watch ON queue_watch.cluster = queue.cluster
  WHERE greatest(queue.occurred_at, queue_watch.told_to_at) >= pod_group.occurred_at - INTERVAL 12 HOUR
    AND coalesce(greatest(queue.occurred_at, pod_group.occurred_at) <= settling.settled_at, TRUE)
  GROUP BY queue.cluster, queue.queue
),
found AS (
  SELECT
    cluster, 'stale_inqueue_podgroup' AS code, 'warning' AS severity, 'podgroup ' || namespace || '/' || name AS subject,
    'the pod group was let into its queue and has no pod: what it asks for stays taken from the queue' AS message,
    json_object(
      'queue', queue, 'gpu_milli', gpu_milli, 'reserved_milli', (
        SELECT CAST('{' || coalesce(string_agg(to_json(resource) || ':' || milli, ',' ORDER BY resource), '') || '}' AS JSON)
        FROM (
          SELECT
            unnest(json_keys(stale.demand)) AS resource,
            json_extract_string(stale.demand, '/' || replace(replace(unnest(json_keys(stale.demand)), '~', '~0'), '/', '~1')) AS milli
        ) AS asked
        WHERE counts_accelerators(resource)
      ), 'pods_count', 0,
      'since_utc', strftime(since_at, '%Y-%m-%dT%H:%M:%SZ'), 'age_seconds', age_seconds
    ) AS evidence
  FROM stale
  UNION ALL
  SELECT
    cluster, 'volcano_queue_counters_stale', 'info', 'queue ' || queue,
    'the queue''s status counts fewer pod groups than there are: the objects are counted, the status is not believed',
    json_merge_patch(
      CASE WHEN pending_claimed < pending THEN json_object('pending', json_object('claimed', pending_claimed, 'counted', pending)) ELSE '{}' END,
      CASE WHEN inqueue_claimed < inqueue THEN json_object('inqueue', json_object('claimed', inqueue_claimed, 'counted', inqueue)) ELSE '{}' END,
      CASE WHEN running_claimed < running THEN json_object('running', json_object('claimed', running_claimed, 'counted', running)) ELSE '{}' END
    )
  FROM counted
  WHERE pending_claimed < pending OR inqueue_claimed < inqueue OR running_claimed < running
)
SELECT
  found.cluster, 'volcano' AS source, found.code || '/' || found.subject AS natural_key, parameter.as_of_at AS occurred_at,
  parameter.as_of_at AS observed_at, found.code, found.severity, found.subject, found.message, CAST(found.evidence AS VARCHAR) AS evidence,
  CAST(NULL AS VARCHAR) AS file, CAST(NULL AS BIGINT) AS line, CAST(NULL AS VARCHAR) AS excerpt
FROM found
CROSS JOIN dim.parameter AS parameter
