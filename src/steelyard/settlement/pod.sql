-- What a statement tells of each holder, by epoch: names, and where it stands in the tenancy tree at the epoch's start.
WITH unit AS (
  SELECT cluster, pod_uid, unit_id, min(unit_kind) AS unit_kind FROM ledger.holding GROUP BY cluster, pod_uid, unit_id
),
holding AS (
  SELECT cluster, pod_uid, min(unit_kind) AS unit_kind FROM ledger.holding GROUP BY cluster, pod_uid
)
SELECT
  holder.holder_no, epoch.epoch_no, holder.cluster, holder.pod_uid, holder.unit_id, holder.owner, holder.tenant, holder.from_at, holder.to_at,
  pod.namespace, pod.pod, pod.workload_name AS workload, pod.queue, coalesce(unit.unit_kind, holding.unit_kind) AS unit_kind, tree.department, tree.team,
  tree.project, tree.cost_centre
FROM settling_holder AS holder
CROSS JOIN settling_epoch AS epoch
LEFT JOIN dim.pod AS pod ON pod.cluster = holder.cluster AND pod.pod_uid = holder.pod_uid
LEFT JOIN unit ON unit.cluster = holder.cluster AND unit.pod_uid = holder.pod_uid AND unit.unit_id IS NOT DISTINCT FROM holder.unit_id
LEFT JOIN holding ON holding.cluster = holder.cluster AND holding.pod_uid = holder.pod_uid
LEFT JOIN dim.tenancy_pod AS tree
  ON tree.cluster = holder.cluster AND tree.pod_uid = holder.pod_uid AND tree.from_us <= epoch_us(epoch.from_at) AND tree.to_us > epoch_us(epoch.from_at)
