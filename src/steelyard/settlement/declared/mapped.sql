-- Which pods a line of the tree maps at an instant, by namespace.
WITH tree AS (
  SELECT DISTINCT "by", key, replace(regexp_replace(match, '([!%_])', '!\1', 'g'), '*', '%') AS pattern
  FROM fact.tenancy
  WHERE version = (SELECT max(version) FROM fact.tenancy)
    AND (valid_from_at IS NULL OR valid_from_at <= make_timestamp($at)) AND (valid_to_at IS NULL OR valid_to_at > make_timestamp($at))
),
mapped AS (
  SELECT DISTINCT pod.cluster, pod.pod_uid
  FROM dim.pod AS pod
  JOIN tree
    ON CASE tree."by"
      WHEN 'namespace' THEN pod.namespace
      WHEN 'label' THEN json_extract_string(pod.labels, '$."' || tree.key || '"')
      WHEN 'owner' THEN pod.workload_name
      WHEN 'tenant' THEN pod.tenant
      WHEN 'queue' THEN pod.queue
    END LIKE tree.pattern ESCAPE '!'
)
SELECT
  pod.cluster, coalesce(pod.namespace, '') AS namespace, count(*) AS pods_count,
  count(*) FILTER (WHERE mapped.pod_uid IS NULL) AS unmapped_count,
  array_to_string(list_sort(list(DISTINCT pod.tenant) FILTER (WHERE mapped.pod_uid IS NULL))[:10], ', ') AS tenants
FROM dim.pod AS pod
LEFT JOIN mapped ON mapped.cluster = pod.cluster AND mapped.pod_uid = pod.pod_uid
GROUP BY pod.cluster, coalesce(pod.namespace, '')
ORDER BY unmapped_count DESC, pod.cluster, namespace
