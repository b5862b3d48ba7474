-- What controllers say of a wait and what quotas say of it, where the two do not agree: the quotas win.
WITH found AS (
  SELECT
    cluster, 'fit_contradicts_words' AS code, 'warning' AS severity, lower(object_kind) || ' ' || namespace || '/' || name AS subject,
    CASE fit
      WHEN 'never_fits' THEN 'its controller says that it has to wait, and it asks for more than its queue can ever give: no waiting helps'
      ELSE 'its controller says that it never fits, and what it asks for is within what its queue may give: it has to wait'
    END AS message,
    json_object(
      'queue', queue, 'resource', resource, 'asked_milli', asked_milli, 'limit_milli', limit_milli, 'said', said, 'fit', fit
    ) AS evidence
  FROM dim.quota_fit
  WHERE said <> fit
)
SELECT
  found.cluster, 'ledger.wait' AS source, found.code || '/' || found.subject AS natural_key, parameter.as_of_at AS occurred_at,
  parameter.as_of_at AS observed_at, found.code, found.severity, found.subject, found.message, CAST(found.evidence AS VARCHAR) AS evidence,
  CAST(NULL AS VARCHAR) AS file, CAST(NULL AS BIGINT) AS line, CAST(NULL AS VARCHAR) AS excerpt
FROM found
CROSS JOIN dim.parameter AS parameter
