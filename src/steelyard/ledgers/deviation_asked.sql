-- What the containers of a pod asked for per card, MiB and percent: the app containers together, the largest of the init containers; NULL = not said.
SELECT
    cluster, pod_uid, device_uuid,
    CASE WHEN count(allowed_memory_mib) FILTER (WHERE container_kind <> 'init') = count(*) FILTER (WHERE container_kind <> 'init')
        THEN CAST(sum(allowed_memory_mib) FILTER (WHERE container_kind <> 'init') AS BIGINT) END AS app_mib,
    max(allowed_memory_mib) FILTER (WHERE container_kind = 'init') AS init_mib,
    CAST(sum(requested_cores_percent) FILTER (WHERE container_kind <> 'init') AS BIGINT) AS app_percent,
    max(requested_cores_percent) FILTER (WHERE container_kind = 'init') AS init_percent
FROM dim."grant"
WHERE device_uuid IS NOT NULL AND standing IN ('counts', 'suspect')
GROUP BY cluster, pod_uid, device_uuid
