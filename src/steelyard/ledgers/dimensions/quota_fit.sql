-- What each gang that still waits for quota asks of accelerators, beside the most that its queue could ever give it, by the latest word of both.
-- fit: what that makes of its wait, where it settles it: `never_fits` (it asks for more), or `not_now` where the controller's last words say of the same
-- quota that it never fits, and it does; else NULL, and the words stand. said: the verdict of those words. limit_milli: of Volcano the queue's capability, and
-- its parent's; of Kueue nominal and all that may be borrowed: up to the borrowing limit, and to what the others of the cohort may lend (of a cohort within
-- another that is not known). A limit that was written and could not
-- be read is neither this nor unlimited: who asks for more than is left without it is told neither, and unread names it (`borrowing_limit`, `lending_limit` of
-- another of the cohort, `nominal`, `capability`). A gang may spread over flavors, a single pod may not. Who asks for less than it names (min_count) is left to the words.
WITH local_queues AS (
  SELECT cluster, namespace, queue, arg_max(parent, occurred_at) AS parent
  FROM fact.queue
  WHERE queue_kind = 'local_queue'
  GROUP BY cluster, namespace, queue
),
latest AS (
  SELECT
    cluster, queue_kind, queue, flavor, resource, arg_max(parent, occurred_at) AS parent,
    arg_max(
      {
        'nominal': amount_milli(nominal_milli), 'borrowing': amount_milli(borrowing_limit_milli),
        'lending': amount_milli(lending_limit_milli), 'capability': amount_milli(capability_milli), 'refused': coalesce(refused, '')
      },
      occurred_at
    ) AS amount
  FROM fact.quota
  WHERE queue_kind IN ('cluster_queue', 'cohort', 'volcano_queue') AND counts_accelerators(resource)
  GROUP BY cluster, queue_kind, queue, flavor, resource
),
nested AS (
  SELECT DISTINCT cluster, queue AS cohort FROM fact.queue WHERE queue_kind = 'cohort' AND parent IS NOT NULL
),
lendable AS (
  SELECT
    cluster, CASE queue_kind WHEN 'cohort' THEN queue ELSE parent END AS cohort, flavor, resource,
    CASE WHEN count(amount.nominal) = count(*) THEN sum(least(amount.nominal, coalesce(amount.lending, amount.nominal))) END AS milli,
    sum(CASE WHEN contains(amount.refused, 'lending_limit') THEN 0 ELSE coalesce(least(amount.nominal, coalesce(amount.lending, amount.nominal)), 0) END)
      AS sure_milli,
    count(*) FILTER (WHERE contains(amount.refused, 'lending_limit')) AS refused_count
  FROM latest
  WHERE queue_kind = 'cohort' OR queue_kind = 'cluster_queue' AND parent IS NOT NULL
  GROUP BY ALL
),
limits AS (
  SELECT
    q.cluster, q.queue_kind, q.queue, q.resource,
    CASE
      WHEN q.queue_kind = 'volcano_queue' THEN least(q.amount.capability, p.amount.capability)
      WHEN q.parent IS NULL THEN q.amount.nominal
      WHEN n.cohort IS NOT NULL THEN q.amount.nominal + q.amount.borrowing
      ELSE q.amount.nominal + least(q.amount.borrowing, l.milli - least(q.amount.nominal, coalesce(q.amount.lending, q.amount.nominal)))
    END AS milli,
    CASE
      WHEN q.queue_kind = 'volcano_queue' THEN
        CASE WHEN NOT contains(q.amount.refused || coalesce(p.amount.refused, ''), 'capability') THEN least(q.amount.capability, p.amount.capability) END
      WHEN q.parent IS NULL OR contains(q.amount.refused, 'borrowing_limit') THEN q.amount.nominal
      WHEN n.cohort IS NOT NULL THEN q.amount.nominal + q.amount.borrowing
      ELSE q.amount.nominal + least(
        q.amount.borrowing,
        l.sure_milli
          - CASE WHEN contains(q.amount.refused, 'lending_limit') THEN 0 ELSE least(q.amount.nominal, coalesce(q.amount.lending, q.amount.nominal)) END
      )
    END AS sure_milli,
    nullif(
      concat_ws(
        ',',
        CASE WHEN q.queue_kind = 'volcano_queue' AND contains(q.amount.refused || coalesce(p.amount.refused, ''), 'capability') THEN 'capability' END,
        CASE WHEN q.queue_kind = 'cluster_queue' AND contains(q.amount.refused, 'nominal') THEN 'nominal' END,
        CASE WHEN q.parent IS NOT NULL AND contains(q.amount.refused, 'borrowing_limit') THEN 'borrowing_limit' END,
        CASE WHEN l.refused_count > CASE WHEN contains(q.amount.refused, 'lending_limit') THEN 1 ELSE 0 END THEN 'lending_limit' END
      ),
      ''
    ) AS unread
  FROM latest AS q
  LEFT JOIN latest AS p
    ON q.queue_kind = 'volcano_queue' AND p.queue_kind = 'volcano_queue' AND p.cluster = q.cluster AND p.queue = q.parent AND p.resource = q.resource
  LEFT JOIN nested AS n ON q.queue_kind = 'cluster_queue' AND n.cluster = q.cluster AND n.cohort = q.parent
  LEFT JOIN lendable AS l
    ON q.queue_kind = 'cluster_queue' AND l.cluster = q.cluster AND l.cohort = q.parent AND l.flavor = q.flavor AND l.resource = q.resource
  WHERE q.queue_kind <> 'cohort'
),
queue_limits AS (
  SELECT
    cluster, queue_kind, queue, resource, CASE WHEN count(milli) = count(*) THEN CAST(sum(milli) AS BIGINT) END AS total_milli,
    CASE WHEN count(milli) = count(*) THEN CAST(max(milli) AS BIGINT) END AS most_milli,
    CAST(max(sure_milli) AS BIGINT) AS sure_milli, CASE WHEN count(sure_milli) = count(*) THEN CAST(sum(sure_milli) AS BIGINT) END AS sure_total_milli,
    max(unread) AS unread
  FROM limits
  GROUP BY cluster, queue_kind, queue, resource
),
grouped AS (SELECT DISTINCT cluster, owner_uid FROM dim.gang WHERE object_kind = 'PodGroup' AND owner_uid IS NOT NULL),
jobs AS (SELECT cluster, object_uid FROM dim.gang WHERE object_kind = 'Job'),
-- A Volcano job is let in by what its pod group names.
waiting AS (
  SELECT
    g.cluster, g.object_uid, coalesce(j.object_uid, g.object_uid) AS demand_id, g.object_kind, g.namespace, g.name, g.pods_count, g.last_word_at,
    CASE g.object_kind WHEN 'Workload' THEN coalesce(g.cluster_queue, q.parent) ELSE g.queue END AS queue,
    CASE g.object_kind WHEN 'Workload' THEN 'cluster_queue' ELSE 'volcano_queue' END AS queue_kind
  FROM dim.gang AS g
  LEFT JOIN local_queues AS q ON q.cluster = g.cluster AND q.namespace = g.namespace AND q.queue = g.queue
  LEFT JOIN jobs AS j ON g.object_kind = 'PodGroup' AND j.cluster = g.cluster AND j.object_uid = g.owner_uid
  WHERE g.phase IN ('pending', 'evicted', 'Pending') AND g.finished_at IS NULL AND g.gone_at IS NULL
    AND (g.object_kind = 'PodGroup' OR coalesce(g.min_count = g.pods_count, TRUE))
    AND NOT (g.object_kind = 'Job' AND (g.cluster, g.object_uid) IN (SELECT (cluster, owner_uid) FROM grouped))
    AND EXISTS (SELECT 1 FROM queue_limits)
),
demands AS (
  SELECT w.*, unnest(map_entries(TRY_CAST(CAST(f.demand AS JSON) AS MAP(VARCHAR, BIGINT)))) AS part
  FROM waiting AS w
  JOIN (SELECT cluster, object_uid, occurred_at, any_value(demand) AS demand FROM fact.gang WHERE demand <> '{}' GROUP BY ALL) AS f
    ON f.cluster = w.cluster AND f.object_uid = w.object_uid AND f.occurred_at = w.last_word_at
),
asked AS (
  SELECT
    d.* EXCLUDE (part), d.part.key AS resource, amount_milli(d.part.value) AS asked_milli, l.sure_milli, l.unread,
    CASE WHEN d.pods_count = 1 THEN l.sure_milli ELSE l.sure_total_milli END AS given_milli,
    CASE WHEN d.pods_count = 1 THEN l.most_milli ELSE l.total_milli END AS limit_milli
  FROM demands AS d
  LEFT JOIN queue_limits AS l
    ON l.cluster = d.cluster AND l.queue_kind = d.queue_kind AND l.queue = d.queue AND l.resource = d.part.key
  WHERE counts_accelerators(d.part.key)
),
weighed AS (
  SELECT
    cluster, demand_id, object_uid, object_kind, namespace, name, queue,
    arg_max({'resource': resource, 'asked': asked_milli, 'limit': limit_milli}, (coalesce(asked_milli - limit_milli, -1000000000000000), resource)) AS worst,
    bool_or(coalesce(asked_milli > limit_milli, FALSE)) AS exceeds, bool_and(coalesce(asked_milli <= sure_milli, FALSE)) AS is_within,
    max(unread) FILTER (WHERE NOT coalesce(asked_milli <= given_milli, FALSE)) AS unread
  FROM asked
  GROUP BY ALL
),
words AS (
  SELECT
    w.cluster, w.object_uid,
    arg_max({'verdict': d.verdict, 'of_cards': d.cause = 'quota' AND counts_accelerators(d.resource)}, (d.occurred_at, d.natural_key)) AS word
  FROM weighed AS w
  JOIN fact.decision AS d
    ON d.cluster = w.cluster AND d.subject_kind = w.object_kind AND d.namespace = w.namespace AND d.subject_name = w.name
    AND coalesce(d.subject_uid = w.object_uid, TRUE)
  WHERE d.verdict IN ('not_now', 'never_fits', 'misconfigured')
  GROUP BY w.cluster, w.object_uid
)
SELECT
  w.cluster, w.demand_id, w.object_kind, w.namespace, w.name, w.queue, w.worst.resource, w.worst.asked AS asked_milli, w.worst."limit" AS limit_milli, s.word.verdict AS said,
  CASE
    WHEN s.word.verdict = 'misconfigured' THEN NULL
    WHEN w.exceeds THEN 'never_fits'
    WHEN w.is_within AND s.word.verdict = 'never_fits' AND s.word.of_cards THEN 'not_now'
  END AS fit,
  CASE WHEN NOT w.exceeds THEN w.unread END AS unread
FROM weighed AS w
LEFT JOIN words AS s ON s.cluster = w.cluster AND s.object_uid = w.object_uid
