-- What the containers of a pod asked for per card, MiB and percent: app_*, the app containers together; first_*, while its init containers run, the
-- larger of that and of the largest of these. NULL = not said by one of them; cores that none asks for are no request.
SELECT
    cluster, pod_uid, device_uuid,
    CASE WHEN count(allowed_memory_mib) FILTER (WHERE container_kind <> 'init') = count(*) FILTER (WHERE container_kind <> 'init')
        THEN CAST(sum(allowed_memory_mib) FILTER (WHERE container_kind <> 'init') AS BIGINT) END AS app_mib,
    CASE WHEN count(allowed_memory_mib) = count(*)
        THEN CAST(greatest(sum(allowed_memory_mib) FILTER (WHERE container_kind <> 'init'), max(allowed_memory_mib) FILTER (WHERE container_kind = 'init')) AS BIGINT)
    END AS first_mib,
    CAST(sum(requested_cores_percent) FILTER (WHERE container_kind <> 'init') AS BIGINT) AS app_percent,
    CAST(
        greatest(
            sum(requested_cores_percent) FILTER (WHERE container_kind <> 'init'), max(requested_cores_percent) FILTER (WHERE container_kind = 'init')
        ) AS BIGINT
    ) AS first_percent
FROM dim."grant"
WHERE device_uuid IS NOT NULL AND standing IN ('counts', 'suspect')
GROUP BY cluster, pod_uid, device_uuid
