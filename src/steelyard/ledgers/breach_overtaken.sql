-- Each wait for quota during which somebody of the same queue was served who comes after it: of lower priority, or of the same and asked for later. One row
-- per wait: the first such admission, and the first of them that asks for no less and so could not have fitted where it did not (NULL = none).
-- Never pairs each wait with each admission: those alike in priority and size are one class, of which one row is looked up. After an eviction only the
-- next admission of each class is looked at.
WITH
waits AS (
  SELECT
    w.cluster, w.queue, w.demand_id, w.segment, w.started_at, w.ended_at, w.known_to_at, w.cause, w.fit, d.created_at,
    coalesce(d.priority, 0) AS priority, w.gpu_milli, coalesce(w.ended_by IN ('reserved', 'scheduled', 'running'), FALSE) AS is_served
  FROM ledger.wait AS w
  JOIN dim.demand AS d ON d.cluster = w.cluster AND d.demand_id = w.demand_id
  WHERE w.stage = 'queue' AND w.demand_kind <> 'pod' AND w.queue IS NOT NULL AND w.unknown_reason IS NULL AND w.gpu_milli > 0
    AND d.created_at IS NOT NULL
),
served AS (
  SELECT
    cluster, queue, priority, gpu_milli, ended_at AS served_at, max(created_at) AS created_at, arg_max(demand_id, (created_at, demand_id)) AS demand_id
  FROM waits
  WHERE is_served
  GROUP BY cluster, queue, priority, gpu_milli, ended_at
),
classes AS (SELECT DISTINCT cluster, queue, priority, gpu_milli FROM served),
-- Of those asked for at an instant or later: who was served first.
firsts AS (
  SELECT
    cluster, queue, priority, gpu_milli, created_at, min(served_at) OVER later AS served_at, arg_min(demand_id, (served_at, demand_id)) OVER later AS demand_id
  FROM (
    SELECT cluster, queue, priority, gpu_milli, created_at, min(ended_at) AS served_at, arg_min(demand_id, (ended_at, demand_id)) AS demand_id
    FROM waits
    WHERE is_served AND segment = 0
    GROUP BY cluster, queue, priority, gpu_milli, created_at
  ) AS one
  WINDOW later AS (PARTITION BY cluster, queue, priority, gpu_milli ORDER BY created_at ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)
),
compared AS (
  SELECT w.*, c.priority AS by_priority, c.gpu_milli AS by_gpu_milli
  FROM waits AS w
  JOIN classes AS c ON c.cluster = w.cluster AND c.queue = w.queue AND c.priority <= w.priority
),
found AS (
  SELECT w.*, f.demand_id AS by_demand_id, f.served_at
  FROM compared AS w
  ASOF JOIN firsts AS f
    ON f.cluster = w.cluster AND f.queue = w.queue AND f.priority = w.by_priority AND f.gpu_milli = w.by_gpu_milli AND w.created_at < f.created_at
  WHERE w.segment = 0 AND w.by_priority = w.priority
  UNION ALL
  SELECT w.*, s.demand_id, s.served_at
  FROM compared AS w
  ASOF JOIN served AS s
    ON s.cluster = w.cluster AND s.queue = w.queue AND s.priority = w.by_priority AND s.gpu_milli = w.by_gpu_milli AND w.started_at < s.served_at
  WHERE w.by_priority < w.priority OR w.segment > 0 AND s.created_at > w.created_at
),
overtakers AS (
  SELECT * FROM found WHERE served_at < coalesce(ended_at, known_to_at) AND by_demand_id <> demand_id
)
SELECT
  cluster, queue, demand_id, segment, any_value(started_at) AS started_at, any_value(ended_at) AS ended_at, any_value(known_to_at) AS known_to_at,
  any_value(cause) AS cause, any_value(fit) AS fit, any_value(priority) AS priority, any_value(gpu_milli) AS gpu_milli,
  min(served_at) AS first_at, arg_min(by_demand_id, (served_at, by_demand_id)) AS first_by, arg_min(by_priority, (served_at, by_demand_id)) AS first_priority,
  min(served_at) FILTER (WHERE by_gpu_milli >= gpu_milli) AS larger_at,
  arg_min(by_demand_id, (served_at, by_demand_id)) FILTER (WHERE by_gpu_milli >= gpu_milli) AS larger_by,
  arg_min(by_priority, (served_at, by_demand_id)) FILTER (WHERE by_gpu_milli >= gpu_milli) AS larger_priority
FROM overtakers
GROUP BY cluster, queue, demand_id, segment
