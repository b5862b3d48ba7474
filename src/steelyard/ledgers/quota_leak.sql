-- Reservations without a live pod: a workload that stays admitted after it was evicted, or after the last of its pods ended, for longer than the grace period.
-- from_us: the later of the two. An admission that no eviction and no pod's end dates is not told as leaked: that no pod was seen at one instant says
-- nothing of the minutes before. to_us: the release, else the last sighting of the workload (is_open).
WITH
held AS (
  SELECT
    cluster, demand_id, "at" AS start_at, step,
    lead("at") OVER turns AS end_at
  FROM dim.step
  WHERE step IN ('admitted', 'released', 'finished', 'abandoned')
  WINDOW turns AS (PARTITION BY cluster, demand_id ORDER BY "at", step_no)
),
admission AS (
  SELECT held.cluster, held.demand_id, held.start_at, coalesce(held.end_at, demand.last_seen_at) AS end_at, held.end_at IS NULL AS is_open
  FROM held
  JOIN dim.demand AS demand ON demand.cluster = held.cluster AND demand.demand_id = held.demand_id AND demand.demand_kind = 'workload'
  WHERE held.step = 'admitted'
),
pod AS (
  SELECT
    member.cluster, member.demand_id, coalesce(life.created_at, life.first_seen_at) AS start_at,
    CASE
      WHEN life.last_container_end_at IS NOT NULL OR life.terminal
        THEN coalesce(life.last_container_end_at, life.terminal_seen_at)
      ELSE coalesce(life.deleted_at, life.gone_by_at)
    END AS end_at
  FROM dim.demand_pod AS member
  JOIN dim.pod_life AS life ON life.cluster = member.cluster AND life.pod_uid = member.pod_uid
  WHERE member.demand_kind = 'workload'
),
emptied AS (
  SELECT
    admission.cluster, admission.demand_id, admission.start_at, admission.end_at, admission.is_open, max(pod.end_at) AS emptied_at,
    count(*) FILTER (WHERE pod.start_at < admission.end_at AND coalesce(pod.end_at >= admission.end_at, TRUE)) AS live_count
  FROM admission
  LEFT JOIN pod ON pod.cluster = admission.cluster AND pod.demand_id = admission.demand_id AND pod.start_at < admission.end_at
  GROUP BY ALL
),
evicted AS (
  SELECT emptied.cluster, emptied.demand_id, emptied.start_at, max(step."at") AS evicted_at
  FROM emptied
  JOIN dim.step AS step
    ON step.cluster = emptied.cluster AND step.demand_id = emptied.demand_id AND step.step = 'evicted' AND step."at" >= emptied.start_at
    AND step."at" <= emptied.end_at
  GROUP BY emptied.cluster, emptied.demand_id, emptied.start_at
),
dated AS (
  SELECT
    emptied.cluster, emptied.demand_id, emptied.end_at, emptied.is_open, evicted.evicted_at,
    greatest(evicted.evicted_at, CASE WHEN emptied.emptied_at >= emptied.start_at THEN emptied.emptied_at END) AS from_at
  FROM emptied
  LEFT JOIN evicted
    ON evicted.cluster = emptied.cluster AND evicted.demand_id = emptied.demand_id AND evicted.start_at = emptied.start_at
  JOIN (SELECT cluster, min(first_at) AS first_at FROM dim.known_span WHERE watched GROUP BY cluster) AS pods_seen
    ON pods_seen.cluster = emptied.cluster
  WHERE emptied.live_count = 0
),
word AS (
  SELECT cluster, object_uid, arg_max(admitted, occurred_at) AS admitted, arg_max(flavors, occurred_at) AS flavors
  FROM fact.gang
  WHERE object_kind = 'Workload' AND admitted <> '{}'
  GROUP BY cluster, object_uid
)
SELECT
  dated.cluster, dated.demand_id, demand.namespace, demand.name, demand.queue, epoch_us(dated.from_at) AS from_us, epoch_us(dated.end_at) AS to_us,
  dated.is_open, dated.evicted_at, word.admitted, word.flavors
FROM dated
CROSS JOIN dim.parameter AS parameter
JOIN dim.demand AS demand ON demand.cluster = dated.cluster AND demand.demand_id = dated.demand_id
JOIN word ON word.cluster = dated.cluster AND word.object_uid = dated.demand_id
WHERE epoch_us(dated.end_at) - epoch_us(dated.from_at) > parameter.leak_grace_us
