CREATE OR REPLACE MACRO evictions_counted(evictions) AS
  coalesce(list_sum(TRY_CAST(json_extract_string(evictions, '$[*].count') AS BIGINT[])), 0);

CREATE OR REPLACE MACRO is_among(value, wanted) AS
  len(wanted) = 0 OR list_contains(wanted, coalesce(CAST(value AS VARCHAR), ''));
