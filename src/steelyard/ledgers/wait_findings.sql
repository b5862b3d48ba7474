-- What controllers say of a wait and what quotas say of it, where the two do not agree: the quotas win. And pods that name a queue which is not known to
-- manage them.
WITH
-- A stamp before the creation is a bound among the steps: who has none of those needs no look at his stamps.
bounded AS (
  SELECT demand.cluster, demand.demand_id, demand.demand_kind, demand.namespace, demand.name, demand.created_at
  FROM dim.demand AS demand
  SEMI JOIN (SELECT demand_no FROM dim.demand_step WHERE basis_no = 4) AS step ON step.demand_no = demand.demand_no
  WHERE demand.demand_kind <> 'pod'
),
found AS (
  SELECT
    cluster, 'fit_contradicts_words' AS code, 'warning' AS severity, lower(object_kind) || ' ' || namespace || '/' || name AS subject,
    CASE fit
      WHEN 'never_fits' THEN 'its controller says that it has to wait, and it asks for more than its queue can ever give: no waiting helps'
      ELSE 'its controller says that it never fits, and what it asks for is within what its queue may give: it has to wait'
    END AS message,
    json_object(
      'queue', queue, 'resource', resource, 'asked_milli', asked_milli, 'limit_milli', limit_milli, 'said', said, 'fit', fit
    ) AS evidence
  FROM dim.quota_fit
  WHERE said <> fit
  UNION ALL
  SELECT
    fit.cluster, 'fit_contradicts_words', 'warning', 'pod ' || fit.namespace || '/' || fit.pod,
    'its scheduler says that it has to wait, and it asks for more than any node has, even an empty one: no waiting helps',
    json_object(
      'resource', fit.resource, 'asked_count', fit.asked_count, 'most_count', fit.most_count, 'nodes_count', fit.nodes_count, 'memory_mib', fit.memory_mib,
      'model', fit.model, 'lacking', fit.lacking, 'said', 'not_now', 'fit', 'never_fits'
    )
  FROM dim.node_fit AS fit
  JOIN (
    SELECT cluster, subject_uid, arg_max(verdict, (occurred_at, natural_key)) AS said
    FROM fact.decision
    WHERE subject_kind = 'Pod' AND verdict IN ('not_now', 'never_fits')
    GROUP BY cluster, subject_uid
  ) AS word ON word.cluster = fit.cluster AND word.subject_uid = fit.pod_uid AND word.said = 'not_now'
  UNION ALL
  SELECT
    cluster, 'queue_label_without_workload', 'warning', 'localqueue ' || coalesce(namespace, '') || '/' || local_queue,
    'pods bear the name of this queue, and among all Workloads that were listed there is none of theirs: whether Kueue manages them is not known, and their wait is told as the scheduler''s',
    json_object('pods_count', count(*), 'one_of_them', min(name), 'namespace', namespace)
  FROM dim.demand
  WHERE lacks_workload
  GROUP BY cluster, namespace, local_queue
  UNION ALL
  SELECT
    demand.cluster, 'stamp_before_creation', 'warning', replace(demand.demand_kind, '_', '') || ' ' || demand.namespace || '/' || demand.name,
    'its controller stamped a change of it before it was created (their clocks differ): when that wait ended is not known',
    json_object('stamps_count', count(*), 'first_at', min(told.occurred_at), 'created_at', any_value(demand.created_at))
  FROM bounded AS demand
  JOIN fact.transition AS told ON told.cluster = demand.cluster AND told.object_uid = demand.demand_id
  WHERE told.aspect IN ('condition', 'phase') AND told.occurred_at < date_trunc('second', demand.created_at)
  GROUP BY demand.cluster, demand.demand_kind, demand.namespace, demand.name
)
SELECT
  found.cluster, 'ledger.wait' AS source, found.code || '/' || found.subject AS natural_key, parameter.as_of_at AS occurred_at,
  parameter.as_of_at AS observed_at, found.code, found.severity, found.subject, found.message, CAST(found.evidence AS VARCHAR) AS evidence,
  CAST(NULL AS VARCHAR) AS file, CAST(NULL AS BIGINT) AS line, CAST(NULL AS VARCHAR) AS excerpt
FROM found
CROSS JOIN dim.parameter AS parameter
