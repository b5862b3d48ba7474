CREATE OR REPLACE MACRO over_use_tolerance_mib(granted_mib, processes, memory_percent, memory_process_mib) AS
  greatest(granted_mib * memory_percent // 100, memory_process_mib * greatest(processes, 1));

CREATE OR REPLACE MACRO over_use_hard_reason(
  rule, length_us, soft_in_time, excess_gpu_us, soft_us, repeated_count, weekly_gpu_us
) AS
  CASE
    WHEN rule IN ('no_grant', 'tampered_grant', 'after_end', 'outside_allocation') THEN 'bypass'
    WHEN rule = 'exposed' OR length_us = 0 THEN NULL
    WHEN length_us >= soft_us THEN 'lasting'
    WHEN soft_in_time >= repeated_count THEN 'repeated'
    WHEN excess_gpu_us >= weekly_gpu_us THEN 'weekly_excess'
  END;
