CREATE OR REPLACE MACRO gpu_time_us(duration_us, share_ppm) AS
  CAST(duration_us AS BIGINT) // 1000000 * share_ppm
  + CAST(duration_us AS BIGINT) % 1000000 * share_ppm // 1000000;

CREATE OR REPLACE MACRO sum_of_gpu_time_us(duration_us, share_ppm) AS
  CAST(
    sum(CAST(duration_us AS BIGINT) // 1000000 * share_ppm)
    + sum(CAST(duration_us AS BIGINT) % 1000000 * share_ppm) // 1000000
    AS BIGINT
  );
