CREATE OR REPLACE MACRO gpu_time_us(duration_us, share_ppm) AS
  CAST(duration_us AS BIGINT) // 1000000 * share_ppm
  + CAST(duration_us AS BIGINT) % 1000000 * share_ppm // 1000000;
