-- What monitoring is told of over-use, as of the last posting.

-- name: episodes
-- Those that go on, or that ended within the last day of what is known. gpu_us: at least.
SELECT cluster, rule, severity, count(*) AS episodes, CAST(coalesce(sum(excess_least_gpu_us), 0) AS BIGINT) AS gpu_us
FROM ledger.over_use
WHERE ended_at IS NULL OR ended_at > (SELECT as_of_at - INTERVAL 1 DAY FROM dim.parameter)
GROUP BY cluster, rule, severity
ORDER BY cluster, rule, severity;
