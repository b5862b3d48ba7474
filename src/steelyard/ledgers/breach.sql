-- Decisions that broke a rule, or that passed somebody as the rule allows (kind `overtaking`); see breach.py. One row per victim's wait, preemption, or
-- time above a limit. cost_milli_us: what it cost the victim, thousandths of a GPU x microseconds: its wait from then on, of a limit what was above it.
WITH
strategy AS (
  SELECT cluster, queue, arg_max(strategy, occurred_at) AS strategy
  FROM fact.queue
  WHERE queue_kind IN ('cluster_queue', 'volcano_queue')
  GROUP BY cluster, queue
),
-- What each asks for in all, and of which flavors it was given.
asked AS (
  SELECT
    cluster, object_uid AS demand_id, arg_max(demand, occurred_at) AS demand, arg_max(flavors, occurred_at) FILTER (WHERE flavors <> '{}') AS flavors
  FROM fact.gang
  WHERE (cluster, object_uid) IN (SELECT (cluster, demand_id) FROM dim.breach_overtaken)
    OR (cluster, object_uid) IN (SELECT (cluster, larger_by) FROM dim.breach_overtaken)
  GROUP BY cluster, object_uid
),
one_flavor AS (
  SELECT cluster, queue
  FROM fact.quota
  WHERE queue_kind = 'cluster_queue' AND counts_accelerators(resource)
  GROUP BY cluster, queue
  HAVING count(DISTINCT coalesce(flavor, '')) = 1
),
less AS (
  SELECT o.cluster, o.demand_id, o.segment, count(*) AS resources_count
  FROM dim.breach_overtaken AS o
  JOIN asked AS mine ON mine.cluster = o.cluster AND mine.demand_id = o.demand_id
  JOIN asked AS theirs ON theirs.cluster = o.cluster AND theirs.demand_id = o.larger_by
  CROSS JOIN LATERAL (SELECT unnest(json_keys(mine.demand)) AS resource) AS named
  WHERE coalesce(TRY_CAST(json_extract(theirs.demand, '$."' || named.resource || '"') AS BIGINT), 0)
    < coalesce(TRY_CAST(json_extract(mine.demand, '$."' || named.resource || '"') AS BIGINT), 0)
  GROUP BY o.cluster, o.demand_id, o.segment
),
judged AS (
  SELECT
    o.*, coalesce(s.strategy, '') = 'StrictFIFO' AS is_strict,
    o.larger_by IS NOT NULL AND coalesce(o.cause = 'quota', TRUE) AND l.resources_count IS NULL
      AND coalesce(mine.flavors = theirs.flavors, mine.flavors IS NULL AND f.queue IS NOT NULL, FALSE) AS could_fit,
    s.strategy
  FROM dim.breach_overtaken AS o
  LEFT JOIN strategy AS s ON s.cluster = o.cluster AND s.queue = o.queue
  LEFT JOIN less AS l ON l.cluster = o.cluster AND l.demand_id = o.demand_id AND l.segment = o.segment
  LEFT JOIN asked AS mine ON mine.cluster = o.cluster AND mine.demand_id = o.demand_id
  LEFT JOIN asked AS theirs ON theirs.cluster = o.cluster AND theirs.demand_id = o.larger_by
  LEFT JOIN one_flavor AS f ON f.cluster = o.cluster AND f.queue = o.queue
),
passed AS (
  SELECT
    *, is_strict OR could_fit AS is_breach,
    CASE WHEN could_fit AND NOT is_strict THEN larger_at ELSE first_at END AS broken_at,
    CASE WHEN could_fit AND NOT is_strict THEN larger_by ELSE first_by END AS demand_by,
    CASE WHEN could_fit AND NOT is_strict THEN larger_priority ELSE first_priority END AS by_priority
  FROM judged
  WHERE is_strict OR coalesce(fit <> 'never_fits', TRUE)
),
queue_word AS (
  SELECT cluster, queue, occurred_at, weight_milli, parent, policies FROM fact.queue WHERE queue_kind IN ('cluster_queue', 'volcano_queue')
),
policy_spans AS (
  SELECT
    cluster, queue, weight_milli, parent, json_extract_string(policies, '$.preemption.withinClusterQueue') AS within_queue,
    json_extract_string(policies, '$.preemption.reclaimWithinCohort') AS reclaim,
    json_extract_string(policies, '$.preemption.borrowWithinCohort.policy') AS while_borrowing,
    TRY_CAST(json_extract_string(policies, '$.preemption.borrowWithinCohort.maxPriorityThreshold') AS BIGINT) AS threshold,
    json_extract_string(policies, '$.reclaimable') AS reclaimable,
    CASE WHEN row_number() OVER words = 1 THEN TIMESTAMP '0001-01-01' ELSE occurred_at END AS from_at
  FROM queue_word
  WINDOW words AS (PARTITION BY cluster, queue ORDER BY occurred_at)
),
preempted AS (
  SELECT p.*, v.created_at AS victim_created_at, t.created_at AS preemptor_created_at
  FROM dim.preemption AS p
  LEFT JOIN dim.demand AS v ON v.cluster = p.cluster AND v.demand_id = p.victim_demand_id
  LEFT JOIN dim.demand AS t ON t.cluster = p.cluster AND t.demand_id = p.preemptor_demand_id
),
of_preemptor AS (
  SELECT p.*, s.within_queue, s.reclaim, s.while_borrowing, s.threshold
  FROM preempted AS p
  ASOF LEFT JOIN policy_spans AS s ON s.cluster = p.cluster AND s.queue = p.preemptor_queue AND p.preempted_at >= s.from_at
),
with_policy AS (
  SELECT p.*, s.reclaimable
  FROM of_preemptor AS p
  ASOF LEFT JOIN policy_spans AS s ON s.cluster = p.cluster AND s.queue = p.victim_queue AND p.preempted_at >= s.from_at
),
against AS (
  SELECT
    *,
    CASE
      WHEN decided_by = 'kueue' AND preemptor_queue = victim_queue THEN
        CASE within_queue
          WHEN 'Never' THEN 'withinClusterQueue: Never'
          WHEN 'LowerPriority' THEN CASE WHEN victim_priority >= preemptor_priority THEN 'withinClusterQueue: LowerPriority' END
          WHEN 'LowerOrNewerEqualPriority' THEN
            CASE
              WHEN victim_priority > preemptor_priority OR victim_priority = preemptor_priority AND victim_created_at < preemptor_created_at
                THEN 'withinClusterQueue: LowerOrNewerEqualPriority'
            END
        END
      WHEN decided_by = 'kueue' AND preemptor_queue <> victim_queue AND cause = 'reclaim_while_borrowing' THEN
        CASE
          WHEN while_borrowing = 'Never' THEN 'borrowWithinCohort: Never'
          WHEN while_borrowing = 'LowerPriority' AND victim_priority >= preemptor_priority THEN 'borrowWithinCohort: LowerPriority'
          WHEN while_borrowing IS NOT NULL AND victim_priority > threshold THEN 'borrowWithinCohort: maxPriorityThreshold ' || threshold
        END
      WHEN decided_by = 'kueue' AND preemptor_queue <> victim_queue THEN
        CASE
          WHEN reclaim = 'Never' THEN 'reclaimWithinCohort: Never'
          WHEN reclaim = 'LowerPriority' AND victim_priority >= preemptor_priority THEN 'reclaimWithinCohort: LowerPriority'
        END
      WHEN decided_by = 'volcano' AND cause = 'reclaim' AND reclaimable = 'false' THEN 'reclaimable: false'
      WHEN decided_by IN ('kube-scheduler', 'volcano') AND cause = 'priority' AND victim_priority >= preemptor_priority THEN 'only lower priority gives way'
    END AS policy
  FROM with_policy
),
later AS (
  SELECT a.cluster, a.victim_demand_id, a.preempted_at, min(s."at") AS served_at
  FROM against AS a
  JOIN dim.step AS s ON s.cluster = a.cluster AND s.demand_id = a.victim_demand_id AND s.step IN ('reserved', 'scheduled', 'running') AND s."at" > a.preempted_at
  WHERE a.policy IS NOT NULL
  GROUP BY a.cluster, a.victim_demand_id, a.preempted_at
),
seen AS (
  SELECT a.cluster, a.victim_demand_id, a.preempted_at, l.served_at, d.ended_at AS gone_at, d.last_seen_at
  FROM against AS a
  LEFT JOIN dim.demand AS d ON d.cluster = a.cluster AND d.demand_id = a.victim_demand_id
  LEFT JOIN later AS l ON l.cluster = a.cluster AND l.victim_demand_id = a.victim_demand_id AND l.preempted_at = a.preempted_at
  WHERE a.policy IS NOT NULL
),
-- Above the borrowing limit, as the controller itself says it reserved: from the first sighting on, until one that is not above. A limit that was lowered
-- beneath what was already taken is no admission against it.
limit_words AS (
  SELECT
    cluster, queue, flavor, resource, occurred_at, nominal_milli + borrowing_limit_milli AS limit_milli,
    greatest(reserved_milli, used_milli) AS taken_milli,
    lag(nominal_milli + borrowing_limit_milli) OVER words AS limit_before_milli, lag(greatest(reserved_milli, used_milli)) OVER words AS taken_before_milli
  FROM fact.quota
  WHERE queue_kind = 'cluster_queue' AND counts_accelerators(resource)
  WINDOW words AS (PARTITION BY cluster, queue, flavor, resource ORDER BY occurred_at)
),
above AS (
  SELECT
    *, taken_milli > limit_milli AS is_above,
    coalesce(taken_milli > limit_milli, FALSE)
      AND NOT coalesce(taken_before_milli > limit_before_milli, FALSE) AND NOT coalesce(limit_milli < limit_before_milli, FALSE) AS starts
  FROM limit_words
),
borrowed AS (
  SELECT
    b.cluster, b.queue, b.flavor, b.resource, b.occurred_at AS from_at, b.taken_milli - b.limit_milli AS above_milli, b.limit_milli,
    (
      SELECT min(e.occurred_at)
      FROM above AS e
      WHERE e.cluster = b.cluster AND e.queue = b.queue AND e.flavor IS NOT DISTINCT FROM b.flavor AND e.resource = b.resource
        AND e.occurred_at > b.occurred_at AND NOT coalesce(e.is_above, FALSE)
    ) AS to_at,
    (
      SELECT max(e.occurred_at)
      FROM above AS e
      WHERE e.cluster = b.cluster AND e.queue = b.queue AND e.flavor IS NOT DISTINCT FROM b.flavor AND e.resource = b.resource
    ) AS last_at
  FROM above AS b
  WHERE b.starts
),
reserved AS (
  SELECT d.cluster, d.queue, s."at" AS reserved_at, max(d.demand_id) AS demand_id
  FROM dim.step AS s
  JOIN dim.demand AS d ON d.demand_no = s.demand_no
  WHERE s.step = 'reserved' AND d.gpu_milli > 0
  GROUP BY d.cluster, d.queue, s."at"
)
SELECT
  cluster, CASE WHEN by_priority < priority THEN 'priority' ELSE 'fifo' END AS rule, CASE WHEN is_breach THEN 'breach' ELSE 'overtaking' END AS kind,
  broken_at, ended_at, known_to_at, queue, demand_by AS demand_id, demand_id AS victim_demand_id, segment,
  coalesce(strategy, 'BestEffortFIFO (not said)')
    || CASE WHEN NOT is_breach AND cause IS DISTINCT FROM 'quota' AND cause IS NOT NULL THEN '; it waits for another reason: ' || cause ELSE '' END AS policy,
  gpu_milli AS victim_gpu_milli, TRY_CAST(CAST(gpu_milli AS HUGEINT) * (epoch_us(coalesce(ended_at, known_to_at)) - epoch_us(broken_at)) AS BIGINT) AS cost_milli_us
FROM passed
UNION ALL
SELECT
  a.cluster, 'preemption_policy', 'breach', a.preempted_at, coalesce(s.served_at, s.gone_at),
  coalesce(s.served_at, s.gone_at, greatest(s.last_seen_at, a.preempted_at), a.preempted_at),
  coalesce(a.preemptor_queue, a.victim_queue), coalesce(a.preemptor_demand_id, a.preemptor_uid), a.victim_demand_id, NULL, a.policy, a.victim_gpu_milli,
  TRY_CAST(
    CAST(a.victim_gpu_milli AS HUGEINT) * (epoch_us(coalesce(s.served_at, s.gone_at, greatest(s.last_seen_at, a.preempted_at))) - epoch_us(a.preempted_at)) AS BIGINT
  )
FROM against AS a
LEFT JOIN seen AS s ON s.cluster = a.cluster AND s.victim_demand_id = a.victim_demand_id AND s.preempted_at = a.preempted_at
WHERE a.policy IS NOT NULL
UNION ALL
SELECT
  b.cluster, 'borrowing_limit', 'breach', b.from_at, b.to_at, coalesce(b.to_at, b.last_at), b.queue, r.demand_id, NULL, NULL,
  b.resource || coalesce(' of ' || b.flavor, '') || ': at most ' || b.limit_milli / 1000 || ', ' || b.above_milli / 1000 || ' above', b.above_milli,
  TRY_CAST(CAST(b.above_milli AS HUGEINT) * (epoch_us(coalesce(b.to_at, b.last_at)) - epoch_us(b.from_at)) AS BIGINT)
FROM borrowed AS b
ASOF LEFT JOIN reserved AS r ON r.cluster = b.cluster AND r.queue = b.queue AND b.from_at >= r.reserved_at
UNION ALL
SELECT
  cluster, 'weight', 'breach', broken_at, ended_at, known_to_at, queue, by_demand_id, demand_id, segment, policy, gpu_milli,
  TRY_CAST(CAST(gpu_milli AS HUGEINT) * (epoch_us(coalesce(ended_at, known_to_at)) - epoch_us(broken_at)) AS BIGINT)
FROM dim.breach_weight
