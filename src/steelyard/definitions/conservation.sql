CREATE OR REPLACE MACRO booked_share_ppm(share_ppm, shares_sum_ppm, capacity_ppm) AS
  CASE
    WHEN shares_sum_ppm <= capacity_ppm THEN share_ppm
    ELSE CAST(CAST(share_ppm AS HUGEINT) * capacity_ppm // shares_sum_ppm AS BIGINT)
  END;

CREATE OR REPLACE MACRO overcommitted_ppm(shares_sum_ppm, capacity_ppm) AS
  greatest(0, shares_sum_ppm - capacity_ppm);
