-- What monitoring is told of queues, as sums; see queue_series.py.

-- name: waits
-- Waits that ended in what was asked for, and whose length is known, by queue and by how many of the bounds each is longer than.
SELECT
  cluster, coalesce(queue, '') AS queue,
  (us > $b0)::INTEGER + (us > $b1)::INTEGER + (us > $b2)::INTEGER + (us > $b3)::INTEGER + (us > $b4)::INTEGER + (us > $b5)::INTEGER
  + (us > $b6)::INTEGER + (us > $b7)::INTEGER + (us > $b8)::INTEGER + (us > $b9)::INTEGER + (us > $b10)::INTEGER AS bucket,
  count(*) AS waits, CAST(sum(us) AS BIGINT) AS total_us
FROM (
  SELECT cluster, queue, epoch_us(ended_at) - epoch_us(started_at) AS us
  FROM ledger.wait
  WHERE stage = CASE WHEN demand_kind = 'pod' THEN 'scheduler' ELSE 'queue' END AND ended_by IN ('reserved', 'scheduled', 'running')
    AND unknown_reason IS NULL
) AS served
GROUP BY ALL
ORDER BY ALL;

-- name: decisions
-- A decision that a condition, an event and the audit log all tell of is as many as the one of them that counts most.
SELECT cluster, queue, verdict, cause, CAST(sum(most) AS BIGINT) AS decisions
FROM (
  SELECT cluster, queue, verdict, cause, subject, max(times) AS most
  FROM (
    SELECT
      cluster, coalesce(queue, '') AS queue, verdict, coalesce(cause, '') AS cause,
      coalesce(subject_uid, coalesce(namespace, '') || '/' || subject_name) AS subject, evidence, sum(greatest(count, 1)) AS times
    FROM fact.decision
    GROUP BY ALL
  ) AS told
  GROUP BY ALL
) AS each_subject
GROUP BY ALL
ORDER BY ALL;

-- name: quotas
-- Each queue's own rows; pools are their sum.
SELECT
  cluster, queue_kind, CASE WHEN namespace IS NULL THEN queue ELSE namespace || '/' || queue END AS queue, coalesce(flavor, '') AS flavor, resource,
  nominal_milli, reserved_milli, used_milli, borrowed_milli, leaked_milli
FROM dim.quota_now
WHERE queue_kind <> 'pool'
ORDER BY ALL;
