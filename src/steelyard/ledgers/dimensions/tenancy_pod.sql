-- Where each pod belongs in the tenancy tree, from when to when: of the lines of the tree's highest version that hold at an instant and match, the first. A stretch
-- without a row is unmapped. by `owner`: the workload's name, or `Kind/name`. Times are microseconds since 1970; the ends of time stand as -2^62 and 2^62.
-- Patterns are laid on each value once, whoever shares it.
WITH line AS (
  SELECT DISTINCT
    position, "by" AS looks_at, "key" AS label_key,
    replace(replace(replace(replace("match", '!', '!!'), '%', '!%'), '_', '!_'), '*', '%') AS like_pattern,
    department, team, project, cost_centre,
    coalesce(epoch_us(valid_from_at), -4611686018427387904) AS from_us, coalesce(epoch_us(valid_to_at), 4611686018427387904) AS to_us
  FROM fact.tenancy
  WHERE version = (SELECT max(version) FROM fact.tenancy)
),
asked AS (
  SELECT DISTINCT looks_at, label_key FROM line
),
pod_value AS (
  SELECT
    pod.cluster, pod.pod_uid, asked.looks_at, asked.label_key,
    CASE asked.looks_at
      WHEN 'namespace' THEN pod.namespace
      WHEN 'label' THEN json_text(pod.labels, asked.label_key)
      WHEN 'owner' THEN pod.workload_name
      WHEN 'tenant' THEN pod.tenant
      WHEN 'queue' THEN pod.queue
    END AS value,
    CASE WHEN asked.looks_at = 'owner' THEN pod.workload_kind END AS kind
  FROM dim.pod AS pod
  CROSS JOIN asked
),
matched AS (
  SELECT
    distinct_value.looks_at, distinct_value.label_key, distinct_value.value, distinct_value.kind, line.position, line.department, line.team, line.project,
    line.cost_centre, line.from_us, line.to_us
  FROM (SELECT DISTINCT looks_at, label_key, value, kind FROM pod_value WHERE value IS NOT NULL) AS distinct_value
  JOIN line
    ON line.looks_at = distinct_value.looks_at AND line.label_key IS NOT DISTINCT FROM distinct_value.label_key
    AND (
      distinct_value.value LIKE line.like_pattern ESCAPE '!'
      OR distinct_value.kind || '/' || distinct_value.value LIKE line.like_pattern ESCAPE '!'
    )
  WHERE line.to_us > line.from_us
),
candidate AS (
  SELECT
    pod.cluster, pod.pod_uid, matched.position, matched.department, matched.team, matched.project, matched.cost_centre, matched.from_us, matched.to_us
  FROM pod_value AS pod
  JOIN matched
    ON matched.looks_at = pod.looks_at AND matched.label_key IS NOT DISTINCT FROM pod.label_key AND matched.value = pod.value
    AND matched.kind IS NOT DISTINCT FROM pod.kind
),
turn AS (
  SELECT cluster, pod_uid, from_us AS turned_us FROM candidate
  UNION
  SELECT cluster, pod_uid, to_us FROM candidate
),
stretch AS (
  SELECT cluster, pod_uid, from_us, to_us
  FROM (
    SELECT cluster, pod_uid, turned_us AS from_us, lead(turned_us) OVER (PARTITION BY cluster, pod_uid ORDER BY turned_us) AS to_us FROM turn
  ) AS swept
  WHERE to_us IS NOT NULL
)
SELECT
  stretch.cluster, stretch.pod_uid, stretch.from_us, stretch.to_us, candidate.position AS line, candidate.department, candidate.team, candidate.project,
  candidate.cost_centre
FROM stretch
JOIN candidate
  ON candidate.cluster = stretch.cluster AND candidate.pod_uid = stretch.pod_uid AND candidate.from_us <= stretch.from_us
  AND candidate.to_us >= stretch.to_us
QUALIFY row_number() OVER (
  PARTITION BY stretch.cluster, stretch.pod_uid, stretch.from_us
  ORDER BY candidate.position, candidate.department, candidate.team, candidate.project, candidate.cost_centre
) = 1
