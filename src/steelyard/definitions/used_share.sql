CREATE OR REPLACE MACRO ratio_ppm(ratio) AS
  CASE WHEN ratio >= 0 AND ratio <= 1.05 THEN CAST(round(least(ratio, 1) * 1000000) AS BIGINT) END;

CREATE OR REPLACE MACRO used_share_ppm(sm_ppm, dram_ppm) AS
  CASE WHEN sm_ppm IS NOT NULL AND dram_ppm IS NOT NULL THEN greatest(sm_ppm, dram_ppm) END;

CREATE OR REPLACE MACRO of_card_ppm(part_ppm, share_ppm) AS
  CAST(part_ppm AS BIGINT) * share_ppm // 1000000;

CREATE OR REPLACE MACRO agreed_ppm(least_ppm, most_ppm) AS
  CASE WHEN most_ppm - least_ppm <= 150000 THEN most_ppm END;

CREATE OR REPLACE MACRO agreed_mib(least_mib, most_mib) AS
  CASE WHEN most_mib - least_mib <= greatest(600, most_mib // 20) THEN most_mib END;

CREATE OR REPLACE MACRO agreed_ratio(least, most) AS
  CASE WHEN CAST(round(most * 1000000) AS BIGINT) - CAST(round(least * 1000000) AS BIGINT) <= 150000 THEN most END;
