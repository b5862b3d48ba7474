-- Whose pods hold, for the smallest move that makes room.

-- name: fits_pods
SELECT life.pod_uid, life.cpu_milli, pod.tenant
FROM dim.pod_life AS life
LEFT JOIN dim.pod AS pod ON pod.cluster = life.cluster AND pod.pod_uid = life.pod_uid
WHERE life.cluster = $cluster
    AND life.pod_uid IN (SELECT unnest($pod_uids))
ORDER BY life.pod_uid;
