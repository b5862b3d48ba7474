-- What callers took of shared services, row by row of their gateways, by the last word on each row: a log that was exported again with other counts
-- replaces what it said before. tenant: whose the caller is, else the caller.
SELECT
  cluster, service, model, caller, coalesce(tenant, caller) AS tenant, started_at, ended_at, prompt_tokens, cached_tokens, completion_tokens, requests_count
FROM fact.service_use
QUALIFY row_number() OVER (PARTITION BY cluster, source, natural_key ORDER BY observed_at DESC, fact_id) = 1
