-- Words that point elsewhere than where the object stands: a kubelet speaks only of pods on its own node, so its host must be the pod's; the pod's own object is
-- believed. An owner is in its object's own namespace. A uid is of one object.
WITH
host AS (
  SELECT
    event.cluster, event.subject_uid AS pod_uid, any_value(life.namespace) AS namespace, any_value(life.pod) AS pod, any_value(life.node) AS node,
    arg_max(event.node, (event.occurred_at, event.node)) AS event_host, arg_max(event.reason, (event.occurred_at, event.node)) AS event_reason,
    count(DISTINCT event.node) AS hosts_count
  FROM fact.event AS event
  JOIN dim.pod_life AS life ON life.cluster = event.cluster AND life.pod_uid = event.subject_uid AND life.node <> event.node
  WHERE event.component = 'kubelet' AND event.subject_kind = 'Pod'
  GROUP BY event.cluster, event.subject_uid
),
-- Uids that may be of several objects: two rows of one object have one hash.
repeated AS (
  SELECT uid_hash
  FROM (SELECT hash(cluster, object_uid) AS uid_hash, hash(object_kind, namespace, object_name) AS object_hash FROM fact.gang) AS told
  GROUP BY uid_hash
  HAVING min(object_hash) <> max(object_hash)
),
several AS (
  SELECT
    cluster, pod_uid AS uid, list_sort(list_distinct(list('pod ' || namespace || '/' || pod))) AS objects
  FROM fact.request
  GROUP BY cluster, pod_uid
  HAVING min(namespace) <> max(namespace) OR min(pod) <> max(pod)
  UNION ALL
  SELECT
    cluster, object_uid, list_sort(list_distinct(list(lower(object_kind) || ' ' || namespace || '/' || object_name)))
  FROM (
    SELECT cluster, object_uid, object_kind, namespace, object_name
    FROM fact.gang
    SEMI JOIN repeated ON repeated.uid_hash = hash(cluster, object_uid)
    UNION
    SELECT gang.cluster, gang.object_uid, gang.object_kind, gang.namespace, gang.object_name
    FROM fact.gang AS gang
    SEMI JOIN fact.request AS request ON request.cluster = gang.cluster AND request.pod_uid = gang.object_uid
    UNION
    SELECT request.cluster, request.pod_uid, 'Pod', request.namespace, request.pod
    FROM fact.request AS request
    SEMI JOIN fact.gang AS gang ON gang.cluster = request.cluster AND gang.object_uid = request.pod_uid
  ) AS named
  GROUP BY cluster, object_uid
  HAVING count(*) > 1
),
found AS (
  SELECT
    cluster, 'event_host_mismatch' AS code, 'pod ' || namespace || '/' || pod AS subject,
    'an event about the pod comes from another machine (' || event_host || ') than its node (' || node || '): the pod''s own node is believed' AS message,
    json_object('event_host', event_host, 'hosts_count', hosts_count, 'node_name', node, 'event_reason', event_reason) AS evidence
  FROM host
  UNION ALL
  SELECT
    owner.cluster, 'owner_in_other_namespace',
    lower(owner.object_kind) || ' ' || owner.namespace || '/' || coalesce(life.pod, step.object_name, owner.object_uid),
    'it names an owner in another namespace: Kubernetes knows no such owners, and the reference is not followed',
    json_object('owner_uid', owner.owner_uid, 'owner_namespace', owner.owner_namespace)
  FROM dim.foreign_owner AS owner
  LEFT JOIN dim.pod_life AS life ON life.cluster = owner.cluster AND life.pod_uid = owner.object_uid
  LEFT JOIN (SELECT cluster, object_uid, min(object_name) AS object_name FROM fact.ownership GROUP BY cluster, object_uid) AS step
    ON step.cluster = owner.cluster AND step.object_uid = owner.object_uid
  UNION ALL
  SELECT
    cluster, 'uid_of_several_objects', objects[1],
    'objects of different names, namespaces or kinds carry one uid: what is known of them cannot be kept apart',
    json_object('uid', uid, 'objects', objects[1:16], 'objects_count', len(objects))
  FROM several
)
SELECT
  found.cluster, 'kube_scheduler' AS source, found.code || '/' || found.subject AS natural_key, parameter.as_of_at AS occurred_at,
  parameter.as_of_at AS observed_at, found.code, 'warning' AS severity, found.subject, found.message, CAST(found.evidence AS VARCHAR) AS evidence,
  CAST(NULL AS VARCHAR) AS file, CAST(NULL AS BIGINT) AS line, CAST(NULL AS VARCHAR) AS excerpt
FROM found
CROSS JOIN dim.parameter AS parameter
