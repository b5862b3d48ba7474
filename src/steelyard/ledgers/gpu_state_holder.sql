-- What a state needs to know of each holder: which GPU instance it holds, whether it holds a part of a shared card (is_shared), when it was ready, until when it was starting (-2^62: nobody says that it was),
-- and whether people work in it by hand. A pod that is bound and was never seen beyond Pending starts for as long as it is held.
SELECT
    holding.cluster, holding.place_kind, holding.place_id, holding.pod_uid, holding.unit_id,
    bool_or(holding.unit_kind = 'mig') AS is_mig, bool_or(holding.unit_kind NOT IN ('gpu', 'mig')) AS is_shared,
    CASE
        WHEN count(DISTINCT coalesce(holding.gi, unit.gi)) = 1 AND count(coalesce(holding.gi, unit.gi)) = count(*)
            THEN max(coalesce(holding.gi, unit.gi))
    END AS gi,
    epoch_us(min(holding.running_at)) AS ready_us,
    CASE
        WHEN min(holding.running_at) IS NOT NULL THEN epoch_us(min(holding.running_at))
        WHEN bool_or(pod.phase = 'Pending') THEN 4611686018427387904
        ELSE -4611686018427387904
    END AS starting_until_us,
    coalesce(
        bool_or(
            pod.workload_kind = 'Notebook' OR json_extract_string(pod.labels, '/notebook-name') IS NOT NULL
            OR json_extract_string(pod.labels, '/component') = 'singleuser-server'
        ),
        FALSE
    ) AS is_interactive
FROM ledger.holding AS holding
LEFT JOIN dim.unit AS unit ON unit.cluster = holding.cluster AND unit.unit_id = holding.unit_id
LEFT JOIN dim.pod AS pod ON pod.cluster = holding.cluster AND pod.pod_uid = holding.pod_uid
WHERE coalesce(holding.ended_at, holding.known_to_at) > holding.started_at
GROUP BY holding.cluster, holding.place_kind, holding.place_id, holding.pod_uid, holding.unit_id
