-- Q1: who holds what at an instant; the scene itself stands in scene.sql.

-- name: ended
SELECT
    held.cluster, held.pod_uid, held.namespace, held.pod, pod.tenant,
    epoch_us(max(held.ended_at)) AS ended_us
FROM ledger.holding AS held
LEFT JOIN dim.pod AS pod ON pod.cluster = held.cluster AND pod.pod_uid = held.pod_uid
WHERE held.ended_at <= make_timestamp($at_us)
    AND $pod IN (held.pod, held.pod_uid, held.namespace || '/' || held.pod)
GROUP BY held.cluster, held.pod_uid, held.namespace, held.pod, pod.tenant
ORDER BY ended_us DESC;
