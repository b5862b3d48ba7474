-- Where two samples of one unit and instant contradict each other: by hour and figure, how often, from when to when, what the first of them were, and who
-- told them. Such a figure is none in `usage` and `gpu_state`.
SELECT
    cluster, device_uuid, gi, make_timestamp(grain_start_us(epoch_us(occurred_at), 3600000000)) AS grain_at, figure,
    count(*) AS instants_count, min(occurred_at) AS first_at, max(occurred_at) AS last_at, arg_min(least, occurred_at) AS least, arg_min(most, occurred_at) AS most,
    arg_min(told_by, occurred_at) AS told_by
FROM dim.contradiction_sample
GROUP BY cluster, device_uuid, gi, grain_at, figure
