CREATE OR REPLACE MACRO evictions_counted(evictions) AS
  coalesce(list_sum(TRY_CAST(json_extract_string(evictions, '$[*].count') AS BIGINT[])), 0);
