CREATE OR REPLACE MACRO coverage_ratio(observed, expected) AS
  CASE WHEN expected > 0 THEN CAST(observed AS DOUBLE) / expected END;
