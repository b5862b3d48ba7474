-- Words that point elsewhere than where the object stands: a kubelet speaks only of pods on its own node, so its host must be the pod's; the pod's own object is
-- believed.
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
found AS (
  SELECT
    cluster, 'event_host_mismatch' AS code, 'pod ' || namespace || '/' || pod AS subject,
    'an event about the pod comes from another machine (' || event_host || ') than its node (' || node || '): the pod''s own node is believed' AS message,
    json_object('event_host', event_host, 'hosts_count', hosts_count, 'node_name', node, 'event_reason', event_reason) AS evidence
  FROM host
)
SELECT
  found.cluster, 'kube_scheduler' AS source, found.code || '/' || found.subject AS natural_key, parameter.as_of_at AS occurred_at,
  parameter.as_of_at AS observed_at, found.code, 'warning' AS severity, found.subject, found.message, CAST(found.evidence AS VARCHAR) AS evidence,
  CAST(NULL AS VARCHAR) AS file, CAST(NULL AS BIGINT) AS line, CAST(NULL AS VARCHAR) AS excerpt
FROM found
CROSS JOIN dim.parameter AS parameter
