-- What monitoring is told of states, as sums; see state_series.py.

-- name: states
SELECT cluster, state, cause, CAST(sum(amount_gpu_us) AS DECIMAL(38, 0)) AS amount_gpu_us
FROM ledger.gpu_state
WHERE grain_at > (SELECT max(grain_at) FROM ledger.gpu_state) - INTERVAL 1 DAY
GROUP BY cluster, state, cause
ORDER BY cluster, state, cause;
