-- Waits that a queue of the same cohort passed although its weighted share was the larger: it was served above its own quota, asked for no less, and what it
-- had above its quota then, over its weight, was more than the waiting queue would have had. Looked at where both queues have a weight, at the first
-- admission of each other queue during the wait; where what either held then is not known, nothing is said.
WITH
weight AS (
  SELECT cluster, queue, arg_max(weight_milli, occurred_at) AS weight_milli
  FROM fact.queue
  WHERE queue_kind = 'cluster_queue' AND weight_milli IS NOT NULL
  GROUP BY cluster, queue
),
keys AS (
  SELECT k.key_no, k.pool_no, k.cluster, k.queue, w.weight_milli
  FROM dim.quota_key AS k
  JOIN weight AS w ON w.cluster = k.cluster AND w.queue = k.queue
  WHERE k.queue_kind = 'cluster_queue' AND k.pool_no IS NOT NULL AND k.flavors_count = 1
),
waits AS (
  SELECT
    w.cluster, w.queue, w.demand_id, w.segment, w.started_at, w.ended_at, w.known_to_at, w.gpu_milli, k.key_no, k.pool_no, k.weight_milli,
    coalesce(w.ended_by = 'reserved', FALSE) AS is_served
  FROM ledger.wait AS w
  JOIN keys AS k ON k.cluster = w.cluster AND k.queue = w.queue
  WHERE w.stage = 'queue' AND w.demand_kind = 'workload' AND w.unknown_reason IS NULL AND w.gpu_milli > 0
    AND coalesce(w.fit <> 'never_fits', TRUE) AND coalesce(w.cause = 'quota', TRUE)
),
pairs AS (
  SELECT w.*, other.key_no AS by_key_no, other.queue AS by_queue, other.weight_milli AS by_weight_milli
  FROM waits AS w
  JOIN keys AS other ON other.pool_no = w.pool_no AND other.key_no <> w.key_no
),
passed AS (
  SELECT p.*, s.demand_id AS by_demand_id, s.gpu_milli AS by_gpu_milli, s.ended_at AS broken_at
  FROM pairs AS p
  ASOF JOIN (
    SELECT key_no, ended_at, max(gpu_milli) AS gpu_milli, arg_max(demand_id, (gpu_milli, demand_id)) AS demand_id
    FROM waits
    WHERE is_served
    GROUP BY key_no, ended_at
  ) AS s ON s.key_no = p.by_key_no AND p.started_at < s.ended_at
  WHERE s.ended_at < coalesce(p.ended_at, p.known_to_at) AND s.gpu_milli >= p.gpu_milli
),
-- What either queue used just before.
mine AS (
  SELECT p.*, q.used_milli, q.nominal_milli, q.to_us
  FROM passed AS p
  ASOF JOIN dim.quota_span AS q ON q.key_no = p.key_no AND epoch_us(p.broken_at) > q.from_us
),
both_sides AS (
  SELECT m.*, q.used_milli AS by_used_milli, q.nominal_milli AS by_nominal_milli, q.to_us AS by_to_us
  FROM mine AS m
  ASOF JOIN dim.quota_span AS q ON q.key_no = m.by_key_no AND epoch_us(m.broken_at) > q.from_us
),
shares AS (
  SELECT
    *, above_milli(by_used_milli + by_gpu_milli, by_nominal_milli) AS by_above_milli, above_milli(used_milli + gpu_milli, nominal_milli) AS above_milli
  FROM both_sides
  WHERE epoch_us(broken_at) <= to_us AND epoch_us(broken_at) <= by_to_us
)
SELECT
  cluster, by_queue AS queue, demand_id, segment, by_demand_id, broken_at, ended_at, known_to_at, gpu_milli,
  'weights ' || by_weight_milli / 1000 || ' and ' || weight_milli / 1000 || ': ' || by_above_milli / 1000 || ' above its quota against ' || above_milli / 1000
    AS policy
FROM shares
WHERE by_above_milli > 0 AND CAST(by_above_milli AS HUGEINT) * weight_milli > CAST(above_milli AS HUGEINT) * by_weight_milli
QUALIFY row_number() OVER (PARTITION BY cluster, demand_id, segment ORDER BY broken_at, by_demand_id) = 1
