-- How many samples of cards each hour has: of what an hour was posted from, the part that `usage` and `gpu_state` share.
SELECT date_trunc('hour', occurred_at) AS hour_at, count(*) AS samples
FROM fact.device_sample
WHERE occurred_at BETWEEN (SELECT history_from_at FROM dim.parameter) AND (SELECT horizon_at FROM dim.parameter)
GROUP BY date_trunc('hour', occurred_at)
