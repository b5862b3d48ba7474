CREATE OR REPLACE MACRO measured_ratio(ratio) AS
  CASE WHEN ratio >= 0 AND ratio <= 1.05 THEN least(ratio, 1.0) END;

CREATE OR REPLACE MACRO hang_signature(active, sm, dram, power_watts, limit_watts, busy_ratio, still_ratio, power_ratio) AS
  active >= busy_ratio AND sm < still_ratio AND dram < still_ratio
  AND CASE WHEN power_watts >= 0 AND limit_watts > 0 THEN power_watts <= limit_watts * power_ratio END;

CREATE OR REPLACE MACRO gpu_state_no(active, sm, dram, idle_ratio, low_ratio, bound_ratio, quiet_ratio) AS
  CASE
    WHEN dram >= bound_ratio AND sm >= bound_ratio THEN 2
    WHEN dram >= bound_ratio THEN 3
    WHEN sm >= bound_ratio THEN 4
    WHEN active < idle_ratio THEN 5
    WHEN active < low_ratio THEN 6
    WHEN active >= low_ratio AND sm < quiet_ratio AND dram < quiet_ratio THEN 7
    WHEN active IS NOT NULL AND sm IS NOT NULL AND dram IS NOT NULL THEN 8
    WHEN active IS NOT NULL THEN CASE WHEN sm IS NOT NULL THEN 13 WHEN dram IS NOT NULL THEN 11 ELSE 15 END
    WHEN sm IS NOT NULL THEN CASE WHEN dram IS NOT NULL THEN 10 ELSE 14 END
    WHEN dram IS NOT NULL THEN 12
    ELSE 16
  END;

CREATE OR REPLACE MACRO gpu_state_name(state_no) AS
  CASE
    WHEN state_no = 1 THEN 'suspected_hang'
    WHEN state_no = 2 THEN 'saturated'
    WHEN state_no = 3 THEN 'memory_bound'
    WHEN state_no = 4 THEN 'compute_bound'
    WHEN state_no = 5 THEN 'held_idle'
    WHEN state_no = 6 THEN 'held_low'
    WHEN state_no = 7 THEN 'busy_not_working'
    WHEN state_no = 8 THEN 'mixed'
    ELSE 'held_unknown'
  END;

CREATE OR REPLACE MACRO gpu_state_missing(state_no) AS
  CASE
    WHEN state_no = 10 THEN '1001'
    WHEN state_no = 11 THEN '1002'
    WHEN state_no = 12 THEN '1001+1002'
    WHEN state_no = 13 THEN '1005'
    WHEN state_no = 14 THEN '1001+1005'
    WHEN state_no = 15 THEN '1002+1005'
    WHEN state_no = 16 THEN '1001+1002+1005'
  END;

CREATE OR REPLACE MACRO sample_cause_no(
  state_no, throttle_reasons, pcie_tx, pcie_rx, nvlink_tx, nvlink_rx, occupancy, copy_rate, collective_rate, occupancy_ratio
) AS
  CASE
    WHEN state_no IN (5, 6) THEN
      CASE WHEN (throttle_reasons & 232) <> 0 THEN 1 ELSE 0 END + CASE WHEN pcie_rx >= copy_rate THEN 2 ELSE 0 END
    WHEN state_no = 7 AND (pcie_tx >= copy_rate OR pcie_rx >= copy_rate) THEN 4
    WHEN state_no = 7 AND (nvlink_tx >= collective_rate OR nvlink_rx >= collective_rate) THEN 5
    WHEN
      state_no = 7 AND occupancy < occupancy_ratio AND pcie_tx < copy_rate AND pcie_rx < copy_rate AND nvlink_tx < collective_rate
      AND nvlink_rx < collective_rate THEN 6
    ELSE 0
  END;

CREATE OR REPLACE MACRO minutes_between(first_minute, last_minute) AS
  ((CAST(1 AS BIGINT) << (last_minute + 1)) - 1) - ((CAST(1 AS BIGINT) << first_minute) - 1);

CREATE OR REPLACE MACRO claims_free_share(stage, fit, gpu_milli, unknown_reason) AS
  stage IN ('queue', 'backoff', 'admission_check', 'gate', 'scheduler') AND coalesce(gpu_milli BETWEEN 1 AND 1000000000, FALSE)
  AND fit IS DISTINCT FROM 'never_fits'
  AND (unknown_reason IS NULL OR unknown_reason IN ('workload_not_seen', 'end_not_stamped', 'gate_not_seen'));

CREATE OR REPLACE MACRO waiting_cause(cause, stage, demand_kind) AS
  CASE
    WHEN cause IN ('quota', 'fragmentation', 'gang', 'placement', 'scheduler') THEN cause
    WHEN cause = 'capacity' THEN 'fragmentation'
    WHEN cause IS NULL AND stage = 'queue' THEN CASE WHEN demand_kind = 'pod_group' THEN 'gang' ELSE 'quota' END
    ELSE 'scheduler'
  END;

CREATE OR REPLACE MACRO spent_as(state, cause) AS
  CASE WHEN state IN ('memory_bound', 'saturated') THEN state WHEN state = 'held_unattributed' AND cause IN ('memory_bound', 'saturated') THEN cause END;
