-- What a statement tells of each holder, by epoch: names, and where it stands in the tenancy tree at the epoch's start. The first line of the latest
-- version of the tree that holds then and matches decides.
WITH unit AS (
  SELECT cluster, pod_uid, unit_id, min(unit_kind) AS unit_kind FROM ledger.holding GROUP BY cluster, pod_uid, unit_id
),
holding AS (
  SELECT cluster, pod_uid, min(unit_kind) AS unit_kind FROM ledger.holding GROUP BY cluster, pod_uid
),
named AS (
  SELECT
    holder.holder_no, holder.cluster, holder.pod_uid, holder.unit_id, holder.owner, holder.tenant, holder.from_at, holder.to_at, pod.namespace, pod.pod,
    pod.workload_name AS workload, pod.queue, coalesce(pod.labels, '{}') AS labels, coalesce(unit.unit_kind, holding.unit_kind) AS unit_kind
  FROM settling_holder AS holder
  LEFT JOIN dim.pod AS pod ON pod.cluster = holder.cluster AND pod.pod_uid = holder.pod_uid
  LEFT JOIN unit ON unit.cluster = holder.cluster AND unit.pod_uid = holder.pod_uid AND unit.unit_id IS NOT DISTINCT FROM holder.unit_id
  LEFT JOIN holding ON holding.cluster = holder.cluster AND holding.pod_uid = holder.pod_uid
),
tree AS (
  SELECT DISTINCT position, "by" AS attribute, key, replace(regexp_replace(match, '([!%_])', '!\1', 'g'), '*', '%') AS pattern, department, team, project, cost_centre,
    valid_from_at, valid_to_at
  FROM fact.tenancy
  WHERE version = (SELECT max(version) FROM fact.tenancy)
),
belonging AS (
  SELECT
    named.holder_no, epoch.epoch_no,
    arg_min({'department': tree.department, 'team': tree.team, 'project': tree.project, 'cost_centre': tree.cost_centre}, tree.position) AS belongs
  FROM named
  CROSS JOIN settling_epoch AS epoch
  JOIN tree
    ON (tree.valid_from_at IS NULL OR tree.valid_from_at <= epoch.from_at) AND (tree.valid_to_at IS NULL OR tree.valid_to_at > epoch.from_at)
    AND CASE tree.attribute
      WHEN 'namespace' THEN named.namespace
      WHEN 'label' THEN json_extract_string(named.labels, '$."' || tree.key || '"')
      WHEN 'owner' THEN named.workload
      WHEN 'tenant' THEN named.tenant
      WHEN 'queue' THEN named.queue
    END LIKE tree.pattern ESCAPE '!'
  GROUP BY named.holder_no, epoch.epoch_no
)
SELECT
  named.holder_no, epoch.epoch_no, named.cluster, named.pod_uid, named.unit_id, named.owner, named.tenant, named.from_at, named.to_at, named.namespace,
  named.pod, named.workload, named.queue, named.unit_kind, belonging.belongs.department AS department, belonging.belongs.team AS team,
  belonging.belongs.project AS project, belonging.belongs.cost_centre AS cost_centre
FROM named
CROSS JOIN settling_epoch AS epoch
LEFT JOIN belonging ON belonging.holder_no = named.holder_no AND belonging.epoch_no = epoch.epoch_no
