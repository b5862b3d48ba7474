-- What callers took of shared services within a span, by service, caller and start. A count is NULL where a row of it is not told; untold_count: rows
-- of which the prompt or the completion is not.
SELECT cluster, service, caller, tenant, started_at,
  CAST(CASE WHEN count(prompt_tokens) = count(*) THEN sum(prompt_tokens) END AS BIGINT) AS prompt_tokens,
  CAST(CASE WHEN count(cached_tokens) = count(*) THEN sum(cached_tokens) END AS BIGINT) AS cached_tokens,
  CAST(CASE WHEN count(completion_tokens) = count(*) THEN sum(completion_tokens) END AS BIGINT) AS completion_tokens,
  count(*) FILTER (WHERE prompt_tokens IS NULL OR completion_tokens IS NULL) AS untold_count
FROM dim.service_use
WHERE started_at >= make_timestamp($from_us) AND started_at < make_timestamp($to_us)
GROUP BY cluster, service, caller, tenant, started_at
