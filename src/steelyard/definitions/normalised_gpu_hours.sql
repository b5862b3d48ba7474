CREATE OR REPLACE MACRO normalised_gpu_time_us(amount_gpu_us, weight_ppm) AS
  CAST(amount_gpu_us AS BIGINT) // 1000000 * weight_ppm
  + CAST(amount_gpu_us AS BIGINT) % 1000000 * weight_ppm // 1000000;

CREATE OR REPLACE MACRO gpu_hours(amount_gpu_us) AS amount_gpu_us / 3600000000.0;
