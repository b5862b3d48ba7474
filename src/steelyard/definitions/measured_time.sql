CREATE OR REPLACE MACRO lit_minutes(minute_no, interval_us) AS
  (CAST(1 AS BIGINT) << least(60, minute_no + greatest(1, least(coalesce(interval_us, 0), 3600000000) // 60000000)))
  - (CAST(1 AS BIGINT) << minute_no);

CREATE OR REPLACE MACRO lit_minutes_of_next_hour(minute_no, interval_us) AS
  (CAST(1 AS BIGINT) << greatest(0, minute_no + greatest(1, least(coalesce(interval_us, 0), 3600000000) // 60000000) - 60)) - 1;

CREATE OR REPLACE MACRO measured_until_us(minutes_mask, offset_us) AS
  bit_count(minutes_mask & ((CAST(1 AS BIGINT) << (offset_us // 60000000)) - 1)) * CAST(60000000 AS BIGINT)
  + ((minutes_mask >> (offset_us // 60000000)) & 1) * (offset_us % 60000000);

CREATE OR REPLACE MACRO measured_us(minutes_mask, hour_us, start_us, end_us) AS
  measured_until_us(minutes_mask, end_us - hour_us) - measured_until_us(minutes_mask, start_us - hour_us);
