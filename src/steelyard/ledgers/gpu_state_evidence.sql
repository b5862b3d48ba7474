-- What is known of a pod beside its card, as minutes of an hour, one bit each: an engine without requests (running and waiting are both known, and 0), the
-- host's CPU, its disks, its network. A sample stands for its minute and until the pod's next, five minutes at most.
WITH
sample AS (
    SELECT
        cluster, 'name:' || namespace || '/' || pod AS named, occurred_at,
        CASE
            WHEN metric IN (
                'vllm:num_requests_running', 'sglang:num_running_reqs', 'tgi_batch_current_size', 'dynamo_frontend_inflight_requests',
                'ray_serve_replica_processing_queries'
            ) THEN 'running'
            WHEN metric IN (
                'vllm:num_requests_waiting', 'sglang:num_queue_reqs', 'tgi_queue_size', 'dynamo_frontend_queued_requests',
                'ray_serve_deployment_queued_queries'
            ) THEN 'waiting'
            WHEN metric IN ('host_cpu_throttled_ratio', 'host_cpu_pressure_ratio') THEN 'host_cpu'
            WHEN metric = 'host_io_pressure_ratio' THEN 'io'
            ELSE 'network'
        END AS kind,
        CASE WHEN value >= 0 AND value <= 1e15 THEN value END AS value
    FROM fact.metric_sample
    WHERE family IN ('engine', 'host') AND namespace IS NOT NULL AND pod IS NOT NULL
        AND metric IN (
            'vllm:num_requests_running', 'sglang:num_running_reqs', 'tgi_batch_current_size', 'dynamo_frontend_inflight_requests',
            'ray_serve_replica_processing_queries', 'vllm:num_requests_waiting', 'sglang:num_queue_reqs', 'tgi_queue_size',
            'dynamo_frontend_queued_requests', 'ray_serve_deployment_queued_queries', 'host_cpu_throttled_ratio', 'host_cpu_pressure_ratio',
            'host_io_pressure_ratio', 'host_network_receive_bytes_per_second', 'host_network_transmit_bytes_per_second'
        )
        AND occurred_at BETWEEN make_timestamp(CAST($read_from_us AS BIGINT)) AND make_timestamp(CAST($read_to_us AS BIGINT))
        AND occurred_at BETWEEN (SELECT history_from_at FROM dim.parameter) AND (SELECT horizon_at FROM dim.parameter)
),

-- One row per pod and instant; running and waiting are unknown where one of their series is.
told AS (
    SELECT
        sample.cluster, sample.named, sample.occurred_at,
        count(CASE WHEN sample.kind = 'running' THEN 1 END) > 0 AND count(CASE WHEN sample.kind = 'waiting' THEN 1 END) > 0
        AND bool_and(sample.kind NOT IN ('running', 'waiting') OR coalesce(sample.value = 0, FALSE)) AS no_load,
        bool_or(sample.kind IN ('running', 'waiting')) AS of_engine,
        coalesce(bool_or(sample.kind = 'host_cpu' AND sample.value >= threshold.host_ratio), FALSE) AS host_cpu,
        coalesce(bool_or(sample.kind = 'io' AND sample.value >= threshold.host_ratio), FALSE) AS io,
        coalesce(bool_or(sample.kind = 'network' AND sample.value >= threshold.network_bytes_per_second), FALSE) AS network
    FROM sample
    CROSS JOIN dim.state_threshold AS threshold
    GROUP BY sample.cluster, sample.named, sample.occurred_at
),

resolved AS (
    SELECT cluster, pod_uid, occurred_at, of_engine, no_load, host_cpu, io, network
    FROM (
        SELECT
            told.* EXCLUDE (named), alias.pod_uid,
            row_number() OVER (
                PARTITION BY told.cluster, told.named, told.occurred_at
                ORDER BY alias.seen DESC, alias.created_at DESC NULLS LAST, alias.pod_uid
            ) AS choice
        FROM told
        JOIN dim.pod_alias AS alias
            ON alias.cluster = told.cluster AND alias.alias = told.named
            AND (alias.created_at IS NULL OR alias.created_at <= told.occurred_at)
    ) AS named
    WHERE choice = 1
),

stretch AS (
    SELECT
        cluster, pod_uid, no_load, host_cpu, io, network, grain_start_us(epoch_us(occurred_at), 60000000) AS from_us,
        greatest(
            grain_start_us(epoch_us(occurred_at), 60000000) + 60000000,
            least(
                epoch_us(occurred_at) + 300000000,
                grain_start_us(
                    coalesce(
                        epoch_us(lead(occurred_at) OVER (PARTITION BY cluster, pod_uid, of_engine ORDER BY occurred_at)),
                        epoch_us(occurred_at)
                    ),
                    60000000
                )
            )
        ) AS to_us
    FROM resolved
),

cut AS (
    SELECT
        *,
        minutes_between(
            (greatest(from_us, hour_us) - hour_us) // 60000000, (least(to_us, hour_us + 3600000000) - 1 - hour_us) // 60000000
        ) AS minutes_mask
    FROM (SELECT *, unnest(range(grain_start_us(from_us, 3600000000), to_us, 3600000000)) AS hour_us FROM stretch) AS cut_stretch
)

SELECT
    cluster, pod_uid, hour_us,
    coalesce(bit_or(CASE WHEN no_load THEN minutes_mask END), 0) AS no_load_mask,
    coalesce(bit_or(CASE WHEN host_cpu THEN minutes_mask END), 0) AS host_cpu_mask,
    coalesce(bit_or(CASE WHEN io THEN minutes_mask END), 0) AS io_mask,
    coalesce(bit_or(CASE WHEN network THEN minutes_mask END), 0) AS network_mask
FROM cut
GROUP BY cluster, pod_uid, hour_us
