-- What callers took of shared services within a span, by service, caller and start; NULL tokens stay not told.
SELECT cluster, service, caller, coalesce(tenant, caller) AS tenant, started_at, CAST(sum(prompt_tokens) AS BIGINT) AS prompt_tokens,
  CAST(sum(cached_tokens) AS BIGINT) AS cached_tokens, CAST(sum(completion_tokens) AS BIGINT) AS completion_tokens,
  count(*) FILTER (WHERE prompt_tokens IS NULL OR completion_tokens IS NULL) AS untold_count
FROM fact.service_use
WHERE started_at >= make_timestamp($from_us) AND started_at < make_timestamp($to_us)
GROUP BY ALL
