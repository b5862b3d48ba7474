-- Where Kueue's objects, its events and the pods contradict each other, whatever file or round each came in: the latest word of each is compared.
-- That an object is missing is said only where all objects of its kind were listed. What a status shows for a moment, while it catches up, is no
-- contradiction: in a watched cluster only words that have stood for 5 minutes count (is_settled). A queue's counters are compared with objects that were
-- listed at most 12 hours later: an older status is no word about them (that there is none at all and never was needs no date).
WITH
listed AS (
  SELECT
    cluster, max(coalesce(observed_to_at, occurred_at)) AS listed_at,
    arg_max(as_of_basis IN ('inferred', 'file_time'), coalesce(observed_to_at, occurred_at)) AS is_inferred,
    bool_or(coalesce(observed_to_at > observed_from_at, FALSE)) AS is_watched
  FROM fact.source_status
  WHERE kind = 'workloads.kueue.x-k8s.io' AND scope = 'cluster' AND complete AND status = 'ok'
  GROUP BY cluster
),
settling AS (
  SELECT listed.cluster, parameter.as_of_at - INTERVAL 5 MINUTE AS settled_at
  FROM listed
  CROSS JOIN dim.parameter AS parameter
  WHERE listed.is_watched
),
workload AS (
  SELECT
    gang.cluster, gang.object_uid, gang.namespace, gang.object_name AS name, gang.created_at, gang.queue, gang.cluster_queue, gang.active,
    gang.phase = 'finished' AS is_finished, gang.admitted, gang.flavors, gang.details,
    coalesce(json_extract_string(gang.details, '$.conditions.Admitted[0]') = 'True', FALSE) AS is_admitted,
    coalesce(json_extract_string(gang.details, '$.conditions.QuotaReserved[0]') = 'True', FALSE) AS is_reserved,
    known.gone_at IS NULL OR coalesce(gang.deletion_at IS NOT NULL AND gang.occurred_at >= listed.listed_at, FALSE)
    OR coalesce(listed.is_inferred AND known.gone_at = known.last_seen_at AND listed.listed_at <= known.last_seen_at + INTERVAL 12 HOUR, FALSE) AS is_there,
    known.gone_at, coalesce(known.gone_at >= settling.settled_at, FALSE) AS just_left, gang.occurred_at <= coalesce(settling.settled_at, gang.occurred_at) AS is_settled
  FROM fact.gang AS gang
  JOIN dim.gang AS known ON known.word_no = gang.rowid
  LEFT JOIN listed ON listed.cluster = gang.cluster
  LEFT JOIN settling ON settling.cluster = gang.cluster
  WHERE gang.object_kind = 'Workload' AND gang.object_group = 'kueue.x-k8s.io'
),
gated AS (
  SELECT cluster, pod_uid, max(occurred_at) AS gated_at
  FROM fact.request
  WHERE list_contains(string_split(scheduling_gates, ','), 'kueue.x-k8s.io/admission')
  GROUP BY cluster, pod_uid
),
-- Pods that Kueue has to do with.
pod AS (
  SELECT
    owner.cluster, owner.pod_uid, life.namespace, life.pod, life.phase, life.created_at,
    coalesce(json_extract_string(owner.labels, '/kueue.x-k8s.io~1managed') = 'true', FALSE) AS is_managed,
    coalesce(life.phase = 'Pending' AND gated.gated_at >= life.alive_seen_at, FALSE) AS is_gated
  FROM dim.pod_owner AS owner
  JOIN dim.pod_life AS life ON life.cluster = owner.cluster AND life.pod_uid = owner.pod_uid
  LEFT JOIN gated ON gated.cluster = owner.cluster AND gated.pod_uid = owner.pod_uid
  WHERE life.gone_by_at IS NULL
    AND (gated.pod_uid IS NOT NULL OR contains(owner.labels, 'kueue.x-k8s.io/') OR contains(owner.annotations, 'kueue.x-k8s.io/workload'))
),
belonging AS (
  SELECT demand.cluster, demand.pod_uid, demand.demand_id AS object_uid
  FROM dim.demand_pod AS demand
  SEMI JOIN workload ON workload.cluster = demand.cluster AND workload.object_uid = demand.demand_id AND workload.is_there
  WHERE demand.demand_kind = 'workload'
),
member AS (
  SELECT
    belonging.cluster, belonging.object_uid, life.node, life.phase, life.deletion_at,
    life.alive_seen_at <= coalesce(settling.settled_at, life.alive_seen_at) AS is_settled
  FROM belonging
  JOIN dim.pod_life AS life ON life.cluster = belonging.cluster AND life.pod_uid = belonging.pod_uid
  LEFT JOIN settling ON settling.cluster = belonging.cluster
  WHERE life.gone_by_at IS NULL AND life.phase NOT IN ('Succeeded', 'Failed')
),
-- Several words of one preemption: the object's, and the last event before it.
victim AS (
  SELECT
    cluster, coalesce(victim_namespace, 'default') AS namespace, victim_name AS name, preemptor_uid, occurred_at, evidence,
    occurred_at + CASE WHEN time_basis = 'before' THEN INTERVAL 0 SECOND ELSE INTERVAL 1 SECOND END AS until_at, victim_uid, fact_id
  FROM fact.preemption
  WHERE source = 'kueue' AND victim_kind = 'Workload' AND victim_name IS NOT NULL AND preemptor_uid IS NOT NULL
),
spoken AS (
  SELECT * FROM victim WHERE evidence = 'condition'
  QUALIFY row_number() OVER (PARTITION BY cluster, coalesce(victim_uid, namespace || '/' || name) ORDER BY occurred_at DESC, fact_id) = 1
),
conflict AS (
  SELECT
    spoken.cluster, spoken.namespace, spoken.name, spoken.preemptor_uid AS condition_uid,
    arg_max(event.preemptor_uid, (event.occurred_at, event.preemptor_uid)) AS event_uid, max(event.occurred_at) AS preempted_at
  FROM spoken
  JOIN victim AS event
    ON event.cluster = spoken.cluster AND event.namespace = spoken.namespace AND event.name = spoken.name AND event.occurred_at <= spoken.until_at
  WHERE event.evidence = 'victim_event'
  GROUP BY spoken.cluster, spoken.namespace, spoken.name, spoken.victim_uid, spoken.preemptor_uid
  HAVING event_uid <> condition_uid
),
named AS (
  SELECT conflict.cluster, conflict.namespace, conflict.name, uid.uid
  FROM conflict
  JOIN (
    SELECT cluster, namespace, name, preemptor_uid AS uid FROM victim
    WHERE evidence = 'victim_event'
    UNION
    SELECT cluster, namespace, name, condition_uid FROM conflict
  ) AS uid ON uid.cluster = conflict.cluster AND uid.namespace = conflict.namespace AND uid.name = conflict.name
  QUALIFY row_number() OVER (PARTITION BY conflict.cluster, conflict.namespace, conflict.name ORDER BY uid.uid) <= 16
),
named_objects AS (
  SELECT
    named.cluster, named.namespace, named.name,
    CAST('{' || string_agg(to_json(named.uid) || ':' || coalesce(to_json(workload.namespace || '/' || workload.name), 'null'), ',' ORDER BY named.uid) || '}' AS JSON) AS objects
  FROM named
  LEFT JOIN workload ON workload.cluster = named.cluster AND workload.object_uid = named.uid
  GROUP BY named.cluster, named.namespace, named.name
),
addressed AS (
  SELECT
    cluster, coalesce(namespace, 'default') AS namespace, subject_name AS name, subject_uid AS uid, min(coalesce(first_at, occurred_at)) AS first_at
  FROM fact.decision
  WHERE source = 'kueue' AND evidence = 'event' AND subject_kind = 'Workload' AND subject_uid IS NOT NULL AND subject_name IS NOT NULL
  GROUP BY ALL
),
mismatch AS (
  SELECT
    workload.cluster, workload.namespace, workload.name, workload.object_uid, max(addressed.uid) AS event_uid, min(addressed.first_at) AS first_at
  FROM addressed
  JOIN workload ON workload.cluster = addressed.cluster AND workload.namespace = addressed.namespace AND workload.name = addressed.name
  ANTI JOIN workload AS other ON other.cluster = addressed.cluster AND other.object_uid = addressed.uid
  WHERE (workload.is_there OR addressed.first_at <= workload.gone_at) AND NOT starts_with(workload.object_uid, 'name:')
    AND addressed.first_at >= workload.created_at
  GROUP BY workload.cluster, workload.namespace, workload.name, workload.object_uid
),
-- The flavor of each workload's cards, where it is one.
flavored AS (
  SELECT cluster, object_uid, namespace, name, details, min(flavor) AS flavor
  FROM (
    SELECT
      *, unnest(json_keys(flavors)) AS resource,
      json_extract_string(flavors, '/' || replace(replace(unnest(json_keys(flavors)), '~', '~0'), '/', '~1')) AS flavor
    FROM workload
    WHERE is_there AND is_settled AND NOT is_finished AND cluster_queue IS NOT NULL AND flavors <> '{}'
  ) AS given
  WHERE counts_accelerators(resource)
  GROUP BY cluster, object_uid, namespace, name, details
  HAVING count(DISTINCT flavor) = 1
),
placed AS (
  SELECT cluster, object_uid, namespace, name, flavor, unnest(json_keys(json_extract(details, '$.nodes'))) AS node
  FROM flavored
  UNION
  SELECT flavored.cluster, flavored.object_uid, flavored.namespace, flavored.name, flavored.flavor, member.node
  FROM flavored
  JOIN member ON member.cluster = flavored.cluster AND member.object_uid = flavored.object_uid
  WHERE member.node IS NOT NULL
),
promised AS (
  SELECT
    placed.cluster, placed.node, placed.flavor, list_sort(list(placed.namespace || '/' || placed.name))[1:16] AS names,
    list({'name': placed.namespace || '/' || placed.name, 'pods_count': coalesce(live.pods_count, 0)})[1:16] AS pods
  FROM placed
  LEFT JOIN (SELECT cluster, object_uid, count(*) AS pods_count FROM member GROUP BY cluster, object_uid) AS live
    ON live.cluster = placed.cluster AND live.object_uid = placed.object_uid
  GROUP BY placed.cluster, placed.node, placed.flavor
),
overlap AS (
  SELECT
    cluster, node, string_agg(flavor, ' and ' ORDER BY flavor) AS flavors, CAST('{' || string_agg(to_json(flavor) || ':' || to_json(names), ',' ORDER BY flavor) || '}' AS JSON) AS names,
    flatten(list(pods ORDER BY flavor)) AS pods
  FROM promised
  GROUP BY cluster, node
  HAVING count(*) > 1
),
overlap_pods AS (
  SELECT cluster, node, CAST('{' || string_agg(to_json(name) || ':' || pods_count, ',' ORDER BY name) || '}' AS JSON) AS pods
  FROM (SELECT DISTINCT cluster, node, pod.name AS name, pod.pods_count AS pods_count FROM (SELECT cluster, node, unnest(pods) AS pod FROM overlap) AS each)
  GROUP BY cluster, node
),
-- How many pods the reservation is said to be for, after pods were given back; NULL where a count is not told.
held AS (
  SELECT
    cluster, object_uid, namespace, name, cluster_queue, sum(given_back) AS given_back,
    CASE WHEN count(assigned) = count(*) THEN greatest(0, sum(assigned) - sum(given_back)) END AS pods_held
  FROM (
    SELECT
      workload.*, try_cast(json_extract(pod_set, '$.assigned_count') AS BIGINT) AS assigned,
      coalesce(try_cast(json_extract(pod_set, '$.reclaimable') AS BIGINT), 0) AS given_back
    FROM (
      SELECT *, unnest(json_extract(details, '$.pod_sets[*]')) AS pod_set
      FROM workload
      WHERE is_there AND is_settled AND NOT is_finished AND contains(details, '"reclaimable"')
    ) AS workload
  ) AS pod_set
  GROUP BY cluster, object_uid, namespace, name, cluster_queue
),
reclaim AS (
  SELECT
    held.cluster, held.namespace, held.name, held.cluster_queue, held.pods_held, held.given_back,
    count(*) FILTER (WHERE member.phase = 'Running' AND member.deletion_at IS NULL AND member.is_settled) AS running_count
  FROM held
  JOIN member ON member.cluster = held.cluster AND member.object_uid = held.object_uid
  WHERE held.given_back > 0
  GROUP BY held.cluster, held.object_uid, held.namespace, held.name, held.cluster_queue, held.pods_held, held.given_back
  HAVING running_count > held.pods_held
),
refused AS (
  SELECT
    cluster, object_uid, namespace, name, cluster_queue, admitted, json_extract_string(each, '$.name') AS check_name,
    json_extract_string(each, '$.state') AS state
  FROM (
    SELECT *, unnest(json_extract(details, '$.checks[*]')) AS each
    FROM workload
    WHERE is_there AND is_settled AND is_reserved AND NOT is_finished AND contains(details, '"checks"')
  ) AS told
  WHERE json_extract_string(each, '$.state') IN ('Rejected', 'Retry')
),
queue AS (
  SELECT cluster, natural_key, queue_kind, queue, namespace, parent, pending_claimed, reserving_claimed, admitted_claimed, deletion_at, occurred_at
  FROM fact.queue
  WHERE source = 'kueue' AND queue_kind IN ('cluster_queue', 'local_queue')
  QUALIFY row_number() OVER (PARTITION BY cluster, natural_key ORDER BY occurred_at DESC, fact_id) = 1
),
queue_watch AS (
  SELECT cluster, max(observed_to_at) AS told_to_at
  FROM fact.source_status
  WHERE kind = 'clusterqueues.kueue.x-k8s.io' AND status = 'ok' AND observed_to_at > observed_from_at
  GROUP BY cluster
),
home AS (
  SELECT cluster, namespace, queue, arg_max(parent, occurred_at) AS parent FROM queue WHERE queue_kind = 'local_queue' GROUP BY cluster, namespace, queue
),
homed AS (
  SELECT workload.*, coalesce(workload.cluster_queue, home.parent) AS home_queue
  FROM workload
  LEFT JOIN home ON home.cluster = workload.cluster AND home.namespace = workload.namespace AND home.queue = workload.queue
),
ever AS (SELECT cluster, home_queue AS queue FROM homed GROUP BY cluster, home_queue),
counted AS (
  SELECT
    cluster, home_queue AS queue, is_there, is_there AND is_settled AND NOT is_finished AS is_sure,
    cluster_queue IS NOT NULL AS reserving, is_admitted AS admitted, cluster_queue IS NULL AND active AS pending
  FROM homed
  WHERE is_there AND NOT is_finished OR is_there AND NOT is_settled OR just_left
),
tally AS (
  SELECT
    cluster, queue, count(*) FILTER (WHERE is_there) AS objects_count, count(*) AS objects_most,
    count(*) FILTER (WHERE is_there AND pending) AS pending, count(*) FILTER (WHERE is_sure AND pending) AS pending_least,
    count(*) FILTER (WHERE pending OR NOT is_sure) AS pending_most,
    count(*) FILTER (WHERE is_there AND reserving) AS reserving, count(*) FILTER (WHERE is_sure AND reserving) AS reserving_least,
    count(*) FILTER (WHERE reserving OR NOT is_sure) AS reserving_most,
    count(*) FILTER (WHERE is_there AND admitted) AS admitted, count(*) FILTER (WHERE is_sure AND admitted) AS admitted_least,
    count(*) FILTER (WHERE admitted OR NOT is_sure) AS admitted_most
  FROM counted
  GROUP BY cluster, queue
),
used AS (
  SELECT DISTINCT cluster, queue
  FROM fact.quota
  WHERE source = 'kueue' AND queue_kind = 'cluster_queue' AND (used_milli <> 0 OR reserved_milli <> 0)
),
claim AS (
  SELECT
    queue.cluster, queue.queue, used.queue IS NOT NULL AS usage_claimed, queue.pending_claimed, queue.reserving_claimed, queue.admitted_claimed,
    coalesce(tally.objects_count, 0) AS objects_count, ever.queue IS NULL OR coalesce(tally.objects_most, 0) = 0 AS is_empty,
    coalesce(tally.pending, 0) AS pending, coalesce(tally.reserving, 0) AS reserving, coalesce(tally.admitted, 0) AS admitted,
    coalesce(queue.pending_claimed NOT BETWEEN coalesce(tally.pending_least, 0) AND coalesce(tally.pending_most, 0), FALSE) AS pending_wrong,
    coalesce(queue.reserving_claimed NOT BETWEEN coalesce(tally.reserving_least, 0) AND coalesce(tally.reserving_most, 0), FALSE) AS reserving_wrong,
    coalesce(queue.admitted_claimed NOT BETWEEN coalesce(tally.admitted_least, 0) AND coalesce(tally.admitted_most, 0), FALSE) AS admitted_wrong
  FROM queue
  JOIN listed ON listed.cluster = queue.cluster
  LEFT JOIN settling ON settling.cluster = queue.cluster
  LEFT JOIN queue_watch ON queue_watch.cluster = queue.cluster
  LEFT JOIN tally ON tally.cluster = queue.cluster AND tally.queue = queue.queue
  LEFT JOIN used ON used.cluster = queue.cluster AND used.queue = queue.queue
  LEFT JOIN ever ON ever.cluster = queue.cluster AND ever.queue = queue.queue
  WHERE queue.queue_kind = 'cluster_queue' AND coalesce(queue.occurred_at <= settling.settled_at, TRUE)
    AND (
      ever.queue IS NULL
      OR greatest(queue.occurred_at, queue_watch.told_to_at) >= listed.listed_at - INTERVAL 12 HOUR
    )
    AND coalesce(queue.deletion_at > settling.settled_at, TRUE)
),
orphan AS (
  SELECT pod.cluster, pod.namespace, pod.pod, pod.phase, pod.created_at, pod.is_gated
  FROM pod
  JOIN listed ON listed.cluster = pod.cluster AND coalesce(pod.created_at <= listed.listed_at, TRUE)
  LEFT JOIN settling ON settling.cluster = pod.cluster
  ANTI JOIN belonging ON belonging.cluster = pod.cluster AND belonging.pod_uid = pod.pod_uid
  WHERE (pod.is_managed OR pod.is_gated) AND coalesce(pod.created_at <= settling.settled_at, TRUE)
),
found AS (
  SELECT
    conflict.cluster, 'preemptor_uid_conflict' AS code, 'warning' AS severity, 'workload ' || conflict.namespace || '/' || conflict.name AS subject,
    'the workload''s condition and the event name different preemptors of its last preemption' AS message,
    json_object(
      'condition_uid', conflict.condition_uid, 'event_uid', conflict.event_uid,
      'preempted_utc', strftime(conflict.preempted_at, '%Y-%m-%dT%H:%M:%SZ'), 'objects', named_objects.objects
    ) AS evidence
  FROM conflict
  JOIN named_objects
    ON named_objects.cluster = conflict.cluster AND named_objects.namespace = conflict.namespace AND named_objects.name = conflict.name
  UNION ALL
  SELECT
    cluster, 'event_uid_mismatch', 'warning', 'workload ' || namespace || '/' || name,
    'an event names this workload by a uid that it does not have',
    json_object('event_uid', event_uid, 'object_uid', object_uid, 'event_first_utc', strftime(first_at, '%Y-%m-%dT%H:%M:%SZ'))
  FROM mismatch
  UNION ALL
  SELECT
    overlap.cluster, 'overlapping_nodes', 'warning', 'node ' || overlap.node,
    'workloads of the flavors ' || overlap.flavors || ' are assigned to this node: its cards are promised under each of them',
    json_object('flavors', overlap.names, 'live_pods_by_workload', overlap_pods.pods)
  FROM overlap
  JOIN overlap_pods ON overlap_pods.cluster = overlap.cluster AND overlap_pods.node = overlap.node
  UNION ALL
  SELECT
    cluster, 'reclaimable_pods_stale', 'warning', 'workload ' || namespace || '/' || name,
    running_count || ' of its pods run, and its queue counts ' || pods_held || ': pods that were given back run again, and quota is promised twice',
    json_object(
      'running_pods_count', running_count, 'counted_pods_count', pods_held, 'reclaimable_pods_count', given_back, 'cluster_queue', cluster_queue
    )
  FROM reclaim
  UNION ALL
  SELECT
    cluster, 'reservation_kept_after_rejection', 'warning', 'workload ' || namespace || '/' || name,
    'the admission check ' || min(check_name) || ' said no, and the quota is still reserved',
    json_object(
      'checks', CAST('{' || string_agg(to_json(check_name) || ':' || to_json(state), ',' ORDER BY check_name) || '}' AS JSON), 'held_milli', CAST(any_value(admitted) AS JSON), 'cluster_queue',
      any_value(cluster_queue)
    )
  FROM refused
  GROUP BY cluster, object_uid, namespace, name
  UNION ALL
  SELECT
    claim.cluster, CASE WHEN claim.is_empty THEN 'queue_counters_without_objects' ELSE 'queue_counters_mismatch' END, 'warning',
    'clusterqueue ' || claim.queue,
    'its status counts ' || concat_ws(
      ', ',
      CASE WHEN claim.pending_wrong THEN claim.pending_claimed || ' pending (the objects: ' || claim.pending || ')' END,
      CASE WHEN claim.reserving_wrong THEN claim.reserving_claimed || ' reserving (the objects: ' || claim.reserving || ')' END,
      CASE WHEN claim.admitted_wrong THEN claim.admitted_claimed || ' admitted (the objects: ' || claim.admitted || ')' END
    ),
    json_object(
      'pending_workloads_claimed_count', claim.pending_claimed, 'reserving_workloads_claimed_count', claim.reserving_claimed,
      'admitted_workloads_claimed_count', claim.admitted_claimed, 'pending_workloads_counted', claim.pending,
      'reserving_workloads_counted', claim.reserving, 'admitted_workloads_counted', claim.admitted,
      'workload_objects_count', claim.objects_count, 'usage_claimed', claim.usage_claimed
    )
  FROM claim
  WHERE claim.pending_wrong OR claim.reserving_wrong OR claim.admitted_wrong
  UNION ALL
  SELECT
    cluster, 'workload_missing_for_kueue_pod', CASE WHEN phase IN ('Succeeded', 'Failed') THEN 'info' ELSE 'warning' END,
    'pod ' || namespace || '/' || pod, 'Kueue manages this pod, and there is no Workload for it',
    json_object('phase', phase, 'created_utc', strftime(created_at, '%Y-%m-%dT%H:%M:%SZ'))
  FROM orphan
  UNION ALL
  SELECT
    cluster, 'workload_object_missing', 'warning', 'pod ' || namespace || '/' || pod,
    'this pod waits at Kueue''s gate, and there is no Workload that could be admitted for it',
    json_object('waiting_since_utc', strftime(created_at, '%Y-%m-%dT%H:%M:%SZ'))
  FROM orphan
  WHERE is_gated
)
SELECT
  found.cluster, 'kueue' AS source, found.code || '/' || found.subject AS natural_key, parameter.as_of_at AS occurred_at,
  parameter.as_of_at AS observed_at, found.code, found.severity, found.subject, found.message, CAST(found.evidence AS VARCHAR) AS evidence,
  CAST(NULL AS VARCHAR) AS file, CAST(NULL AS BIGINT) AS line, CAST(NULL AS VARCHAR) AS excerpt
FROM found
CROSS JOIN dim.parameter AS parameter
