-- What pods say of themselves, by their latest word: what opens cards to them, and whether their cores are enforced.
SELECT
    cluster, pod_uid, arg_max(gpu_exposure, (occurred_at, fact_id)) AS gpu_exposure,
    coalesce(arg_max(core_policy, (occurred_at, fact_id)) = 'force', FALSE) AS is_forced
FROM fact.request
WHERE gpu_exposure <> '' OR core_policy IS NOT NULL
GROUP BY cluster, pod_uid
