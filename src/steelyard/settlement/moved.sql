-- Holders whose pod is another tenant's by now than in the snapshot, where the books price either of the two by name: what the old tenant would pay by
-- the books of now is not known.
SELECT now.holder_no
FROM settling_holder AS now
JOIN (SELECT DISTINCT cluster, pod_uid, tenant FROM settling_was_pod WHERE pod_uid IS NOT NULL) AS was
  ON was.cluster = now.cluster AND was.pod_uid = now.pod_uid AND was.tenant <> now.tenant
SEMI JOIN (
  SELECT tenant FROM dim.price_line WHERE tenant IS NOT NULL
  UNION
  SELECT tenant FROM dim.discount_line
) AS named ON named.tenant IN (was.tenant, now.tenant)
