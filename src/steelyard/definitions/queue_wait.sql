CREATE OR REPLACE MACRO evictions_counted(evictions) AS
  coalesce(list_sum(TRY_CAST(json_extract_string(evictions, '$[*].count') AS BIGINT[])), 0);

CREATE OR REPLACE MACRO is_among(value, wanted) AS
  len(wanted) = 0 OR list_contains(wanted, coalesce(CAST(value AS VARCHAR), ''));

-- The same for lists that may be long: of requests, not of words. NULL is none of them.
CREATE OR REPLACE MACRO is_one_of(value, wanted) AS
  len(wanted) = 0 OR coalesce(value IN (SELECT unnest(wanted)), FALSE);

-- Whether a row of ledger `wait` is a request's wait for its queue (of pods: for the scheduler), or stands in the place of one that cannot be recovered.
CREATE OR REPLACE MACRO is_queueing(stage, demand_kind, unknown_reason) AS
  stage = CASE WHEN demand_kind = 'pod' THEN 'scheduler' ELSE 'queue' END OR stage IN ('queue', 'gate') AND unknown_reason IS NOT NULL;

-- What became of such a wait: `waiting`, `served`, or `given_up` (by whoever asked, or made to by its controller). A gate that opened let it pass.
CREATE OR REPLACE MACRO wait_outcome(ended_by) AS
  CASE WHEN ended_by IS NULL THEN 'waiting' WHEN ended_by IN ('reserved', 'scheduled', 'running', 'ungated') THEN 'served' ELSE 'given_up' END;
