-- Every MIG profile that a grant or a unit names, by node; of a compute instance (1c.3g.20gb) also that of its GPU instance.
SELECT DISTINCT cluster, node, profile
FROM (
  SELECT g.cluster, coalesce(g.node, u.node, p.node, '') AS node, coalesce(g.profile, u.profile) AS profile
  FROM fact."grant" AS g
  LEFT JOIN dim.unit AS u ON u.cluster = g.cluster AND u.unit_id = g.unit_id
  LEFT JOIN dim.pod_life AS p ON p.cluster = g.cluster AND p.pod_uid = g.pod_uid
  UNION ALL
  SELECT cluster, coalesce(node, ''), profile FROM dim.unit
  UNION ALL
  SELECT cluster, coalesce(node, ''), regexp_replace(profile, '^(mig-)?[0-9]{1,2}c[.]', '\1', 'i') FROM dim.unit WHERE unit_kind = 'mig'
) AS named
WHERE profile IS NOT NULL
ORDER BY cluster, node, profile
