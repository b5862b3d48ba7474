-- Requests that a quota of cards turned away, retries of one owner as one demand, dated at the first.
SELECT key.key_no, refusal.cluster, coalesce(refusal.owner, refusal.natural_key) AS demand, min(refusal.occurred_at) AS first_at
FROM fact.refusal AS refusal
JOIN dim.quota_key AS key
  ON key.cluster = refusal.cluster AND key.queue_kind = 'resource_quota' AND key.queue = refusal.quota
  AND key.namespace IS NOT DISTINCT FROM refusal.namespace
  AND regexp_replace(key.resource, '^requests\.', '') = regexp_replace(refusal.resource, '^requests\.', '')
CROSS JOIN dim.parameter AS parameter
WHERE refusal.refused_by = 'quota' AND refusal.occurred_at >= parameter.history_from_at AND refusal.occurred_at <= parameter.horizon_at
GROUP BY key.key_no, refusal.cluster, demand
