-- The other names under which sources speak of a pod: ``name:<namespace>/<pod>`` where they do not know its uid, and the hash by which a kubelet
-- calls a static pod (its processes' cgroups carry it; the mirror pod that the API server shows has another uid and the hash as an annotation).
-- seen: a listing showed the pod, else only a grant names it with its uid (the consumer of a claim). An alias may have been several pods, one after the other.
SELECT cluster, 'name:' || namespace || '/' || pod AS alias, pod_uid, created_at, TRUE AS seen
FROM dim.pod_life
WHERE pod_uid <> 'name:' || namespace || '/' || pod
UNION ALL
SELECT DISTINCT cluster, 'name:' || namespace || '/' || pod, pod_uid, CAST(NULL AS TIMESTAMP), FALSE
FROM fact."grant"
WHERE namespace IS NOT NULL AND pod IS NOT NULL AND pod_uid NOT LIKE 'name:%' AND pod_uid NOT LIKE 'claim:%'
UNION ALL
SELECT DISTINCT owner.cluster, owner.config_hash, owner.pod_uid, life.created_at, TRUE
FROM (
  SELECT
    cluster, pod_uid,
    unnest([
      json_extract_string(annotations, '$."kubernetes.io/config.hash"'), json_extract_string(annotations, '$."kubernetes.io/config.mirror"')
    ]) AS config_hash
  FROM fact.owner
  WHERE annotations LIKE '%kubernetes.io/config.%'
) AS owner
JOIN dim.pod_life AS life ON life.cluster = owner.cluster AND life.pod_uid = owner.pod_uid
WHERE owner.config_hash IS NOT NULL AND owner.config_hash <> owner.pod_uid
