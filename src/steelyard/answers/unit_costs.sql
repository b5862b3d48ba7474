-- What money is laid beside: tokens of services, jobs that ended, samples that pods say they do. See unit_costs.py.

-- name: service_tokens
-- What callers took of each service within the window, as a gateway counted it; a count is NULL where a row of it is not told. untold_count: rows of
-- which the prompt or the completion is not told.
SELECT
    cluster, service, tenant,
    CASE WHEN count(prompt_tokens) = count(*) THEN sum(prompt_tokens) END AS prompt_tokens,
    CASE WHEN count(cached_tokens) = count(*) THEN sum(cached_tokens) END AS cached_tokens,
    CASE WHEN count(completion_tokens) = count(*) THEN sum(completion_tokens) END AS completion_tokens,
    count(*) FILTER (WHERE prompt_tokens IS NULL OR completion_tokens IS NULL) AS untold_count
FROM dim.service_use
WHERE started_at >= make_timestamp($from_us)
    AND started_at < make_timestamp($to_us)
GROUP BY cluster, service, tenant
ORDER BY cluster, service, tenant;

-- name: engine_tokens
-- What the engines of each pod that held anything counted within the window: their counters of tokens, from the first sample in it (from 0, where the pod
-- began in it) to the last; one that fell began anew. held_us: from when to when the pod held; prompt_us, completion_us: how much of that was counted.
WITH
held AS (
    SELECT
        pod.cluster, pod.namespace, pod.pod, min(pod.workload_name) AS workload_name, epoch_us(min(holding.started_at)) AS begun_us,
        least(epoch_us(max(coalesce(holding.ended_at, holding.known_to_at))), $to_us) - greatest(epoch_us(min(holding.started_at)), $from_us) AS held_us
    FROM ledger.holding AS holding
    JOIN dim.pod AS pod ON pod.cluster = holding.cluster AND pod.pod_uid = holding.pod_uid
    WHERE holding.occupancy = 'held' AND pod.workload_name IS NOT NULL
        AND holding.started_at < make_timestamp($to_us)
        AND coalesce(holding.ended_at, holding.known_to_at) > make_timestamp($from_us)
    GROUP BY pod.cluster, pod.namespace, pod.pod
),

counted AS (
    SELECT
        cluster, namespace, pod, natural_key, is_prompt, epoch_us(occurred_at) AS at_us, value,
        lag(value) OVER (PARTITION BY cluster, namespace, pod, natural_key ORDER BY occurred_at) AS value_before
    FROM dim.token_counter
    WHERE occurred_at >= make_timestamp($from_us)
        AND occurred_at <= make_timestamp($to_us)
),

series AS (
    SELECT
        held.cluster, held.namespace, held.pod, counted.natural_key, counted.is_prompt,
        sum(
            CASE
                WHEN counted.value_before IS NOT NULL AND counted.value >= counted.value_before THEN counted.value - counted.value_before
                WHEN counted.value_before IS NOT NULL OR held.begun_us >= $from_us THEN counted.value
                ELSE 0
            END
        ) AS tokens,
        max(counted.at_us) - min(CASE WHEN held.begun_us >= $from_us THEN held.begun_us ELSE counted.at_us END) AS counted_us
    FROM held
    JOIN counted ON counted.cluster = held.cluster AND counted.namespace = held.namespace AND counted.pod = held.pod
    GROUP BY held.cluster, held.namespace, held.pod, counted.natural_key, counted.is_prompt
)

SELECT
    held.cluster, held.namespace || '/' || held.workload_name AS service, held.pod, held.held_us,
    CAST(round(sum(series.tokens) FILTER (WHERE series.is_prompt)) AS BIGINT) AS prompt_tokens,
    CAST(round(sum(series.tokens) FILTER (WHERE NOT series.is_prompt)) AS BIGINT) AS completion_tokens,
    min(series.counted_us) FILTER (WHERE series.is_prompt) AS prompt_us, min(series.counted_us) FILTER (WHERE NOT series.is_prompt) AS completion_us
FROM held
LEFT JOIN series ON series.cluster = held.cluster AND series.namespace = held.namespace AND series.pod = held.pod
GROUP BY held.cluster, held.namespace, held.workload_name, held.pod, held.held_us
ORDER BY held.cluster, service, held.pod;

-- name: jobs_told
-- How each job stands by its own word; of several under one name the last.
SELECT
    cluster, namespace, object_kind AS workload_kind, name AS workload_name,
    arg_max(coalesce(outcome, ''), (coalesce(created_at, first_seen_at), object_uid)) AS outcome,
    epoch_us(max(coalesce(created_at, first_seen_at))) AS created_us, epoch_us(max(finished_at)) AS finished_us,
    count(finished_at) = count(*) AS is_finished
FROM dim.job
GROUP BY cluster, namespace, object_kind, name;

-- name: said_rates
-- What pods say of the speed of their workload, by the first annotation of the settings that is there; and for how long the workload held anything in
-- the window, pods that run at the same time once. rate_micro: millionths of a sample per second, NULL = no number below a billion.
WITH
word AS (
    SELECT pod.cluster, pod.pod_uid, pod.namespace, pod.workload_kind, pod.workload_name, key.position,
        json_extract_string(pod.annotations, '/' || replace(replace(key.key, '~', '~0'), '/', '~1')) AS word
    FROM dim.rate_annotation AS key
    JOIN dim.pod AS pod ON contains(pod.annotations, key.key)
    WHERE pod.workload_name IS NOT NULL
),

said AS (
    SELECT cluster, namespace, workload_kind, workload_name, max(rate_micro) AS rate_micro
    FROM (
        SELECT
            cluster, pod_uid, namespace, workload_kind, workload_name,
            arg_min(
                CASE
                    WHEN length(word) <= 40 AND TRY_CAST(word AS DECIMAL(38, 6)) BETWEEN 0 AND 999999999
                        THEN CAST(TRY_CAST(word AS DECIMAL(38, 6)) * 1000000 AS BIGINT)
                END,
                position
            ) AS rate_micro
        FROM word
        WHERE word IS NOT NULL
        GROUP BY cluster, pod_uid, namespace, workload_kind, workload_name
    ) AS of_pod
    GROUP BY cluster, namespace, workload_kind, workload_name
),

held AS (
    SELECT
        said.cluster, said.namespace, said.workload_kind, said.workload_name, said.rate_micro,
        greatest(epoch_us(coalesce(holding.running_at, holding.started_at)), $from_us) AS start_us,
        least(epoch_us(coalesce(holding.ended_at, holding.known_to_at)), $to_us) AS end_us
    FROM said
    JOIN dim.pod AS pod
        ON pod.cluster = said.cluster AND pod.namespace = said.namespace AND pod.workload_kind IS NOT DISTINCT FROM said.workload_kind
        AND pod.workload_name = said.workload_name
    JOIN ledger.holding AS holding ON holding.cluster = pod.cluster AND holding.pod_uid = pod.pod_uid
    WHERE holding.occupancy = 'held'
),

reached AS (
    SELECT
        *,
        max(end_us) OVER (
            PARTITION BY cluster, namespace, workload_kind, workload_name ORDER BY start_us, end_us ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS reach_us
    FROM held
    WHERE end_us > start_us
)

SELECT
    cluster, namespace, workload_kind, workload_name, max(rate_micro) AS rate_micro,
    CAST(sum(greatest(0, end_us - greatest(start_us, coalesce(reach_us, start_us)))) AS BIGINT) AS ran_us
FROM reached
GROUP BY cluster, namespace, workload_kind, workload_name;
