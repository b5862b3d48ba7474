-- name: rule_breaches
-- What broke a rule, or passed somebody as the rule allows, within the window; who is asked about is on one side of it or on the other. total, cost_total:
-- of all of the kind and rule, the listed and the others.
WITH sides AS (
  SELECT
    b.*, d.namespace, d.name, d.tenant, d.person, d.priority, d.gpu_milli, d.workload_kind || '/' || d.workload_name AS workload,
    v.namespace AS victim_namespace, v.name AS victim_name, v.tenant AS victim_tenant, v.person AS victim_person, v.priority AS victim_priority,
    v.workload_kind || '/' || v.workload_name AS victim_workload
  FROM ledger.breach AS b
  LEFT JOIN dim.demand AS d ON d.cluster = b.cluster AND d.demand_id = b.demand_id
  LEFT JOIN dim.demand AS v ON v.cluster = b.cluster AND v.demand_id = b.victim_demand_id
  WHERE b.broken_at >= make_timestamp($from_us::BIGINT) AND b.broken_at < make_timestamp($to_us::BIGINT)
    AND is_among(b.cluster, $cluster_wanted) AND is_among(b.queue, $queue_wanted)
),
asked AS (
  SELECT *
  FROM sides
  WHERE (
      is_among(namespace, $namespace_wanted) AND is_among(tenant, $tenant_wanted) AND is_among(priority, $priority_wanted)
      AND is_among(person, $person_wanted) AND is_among(workload, $workload_wanted) AND is_one_of(demand_id, $demand_id_wanted::VARCHAR[])
    )
    OR (
      is_among(victim_namespace, $namespace_wanted) AND is_among(victim_tenant, $tenant_wanted) AND is_among(victim_priority, $priority_wanted)
      AND is_among(victim_person, $person_wanted) AND is_among(victim_workload, $workload_wanted) AND is_among(victim_demand_id, $demand_id_wanted)
    )
)
SELECT
  cluster, kind, rule, policy, queue, epoch_us(broken_at) AS broken_us, epoch_us(ended_at) AS ended_us, demand_id, namespace, name, tenant, person, priority,
  gpu_milli, victim_demand_id, victim_namespace, victim_name, victim_tenant, victim_person, victim_priority, victim_gpu_milli, cost_milli_us,
  count(*) OVER (PARTITION BY kind) AS total, CAST(sum(cost_milli_us) OVER (PARTITION BY kind) AS DECIMAL(38, 0)) AS cost_total,
  count(cost_milli_us) OVER (PARTITION BY kind) AS cost_known
FROM asked
QUALIFY row_number() OVER (PARTITION BY kind ORDER BY cost_milli_us DESC NULLS LAST, broken_at, demand_id, victim_demand_id) <= $rows_max
ORDER BY kind, rule, broken_at, victim_name, name;

-- name: audited
SELECT
  (SELECT count(*) FROM fact.queue WHERE queue_kind IN ('cluster_queue', 'volcano_queue')) > 0 AS has_queues,
  (SELECT count(*) FROM ledger.wait WHERE stage = 'queue' AND demand_kind <> 'pod') > 0 AS has_waits,
  (SELECT count(*) FROM dim.preemption) > 0 AS has_preemptions,
  (SELECT count(*) FROM fact.source_status WHERE source = 'audit_log' AND status <> 'failed') > 0 AS has_audit;

-- name: quota_changes
SELECT
  cluster, epoch_us(changed_at) AS changed_us, who, done_by, verb, queue_kind, namespace, queue, before, before_basis, before_unknown, after, after_basis,
  after_unknown, user_agent, count(*) OVER () AS total
FROM dim.quota_change
WHERE changed_at >= make_timestamp($from_us::BIGINT) AND changed_at < make_timestamp($to_us::BIGINT)
  AND is_among(cluster, $cluster_wanted) AND is_among(queue, $queue_wanted) AND is_among(namespace, $namespace_wanted)
ORDER BY changed_at DESC, queue_kind, queue
LIMIT $rows_max;
