-- What was turned away, each once: a controller that asks again and again for one owner asks for one thing, and a refusal that several sources tell of is
-- one. demand_key: what was asked for. times: requests that were refused. is_demand: it was asked to come to be or to be let in (not: to be evicted).
-- tenant: of the workload where it was seen, else by the rules that look at namespaces; NULL = a label would tell, and a refused object has none.
WITH words AS (
  SELECT
    cluster, namespace, refused_by, verb, rule, quota, subject_kind, natural_key,
    CASE
      WHEN subject_kind = 'Workload' THEN 'Workload ' || coalesce(subject_name, natural_key)
      ELSE coalesce(owner, subject_kind || ' ' || subject_name, natural_key)
    END AS demand_key,
    max(subject_name) AS subject_name, max("user") AS "user", max(resource) AS resource, arg_max(asked_milli, occurred_at) AS asked_milli,
    arg_max(used_milli, occurred_at) AS used_milli, arg_max(limit_milli, occurred_at) AS limit_milli, arg_max(message, occurred_at) AS message,
    min(occurred_at) AS first_at, max(occurred_at) AS last_at, max(count) AS times
  FROM fact.refusal
  GROUP BY ALL
),
kept AS (
  SELECT
    cluster, namespace, refused_by, verb, rule, quota, subject_kind, demand_key, max(subject_name) AS subject_name, max("user") AS "user",
    max(resource) AS resource, arg_max(asked_milli, last_at) AS asked_milli, arg_max(used_milli, last_at) AS used_milli,
    arg_max(limit_milli, last_at) AS limit_milli, arg_max(message, last_at) AS message, min(first_at) AS first_at, max(last_at) AS last_at,
    CAST(sum(times) AS BIGINT) AS times
  FROM words
  GROUP BY ALL
),
rules AS (
  SELECT n.namespace, arg_min(CASE WHEN t.attribute = 'namespace' THEN coalesce(t.tenant, n.namespace) ELSE '' END, t.position) AS tenant
  FROM (SELECT DISTINCT namespace FROM kept WHERE namespace IS NOT NULL) AS n
  JOIN dim.tenant_rule AS t ON t.attribute <> 'namespace' OR tenant_rule_matches(n.namespace, t.like_pattern)
  GROUP BY n.namespace
)
SELECT
  k.*, k.verb <> 'evict' AS is_demand, d.demand_id, d.queue, d.priority, d.person, d.workload_kind || '/' || d.workload_name AS workload,
  coalesce(d.tenant, nullif(r.tenant, '')) AS tenant
FROM kept AS k
LEFT JOIN dim.demand AS d
  ON d.cluster = k.cluster AND d.namespace = k.namespace AND d.name = k.subject_name AND d.demand_kind = 'workload' AND k.subject_kind = 'Workload'
LEFT JOIN rules AS r ON r.namespace = k.namespace
