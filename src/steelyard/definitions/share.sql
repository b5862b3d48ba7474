CREATE OR REPLACE MACRO plausible_grant(quantity, consumers, memory_mib, cores_percent, share_ppm) AS
  quantity BETWEEN 0 AND 1000000
  AND consumers BETWEEN 0 AND 1000000
  AND coalesce(memory_mib, 0) BETWEEN 0 AND 100000000 // greatest(1, quantity)
  AND coalesce(cores_percent, 0) BETWEEN 0 AND 100000
  AND coalesce(share_ppm, 0) BETWEEN 0 AND 1000000000;

CREATE OR REPLACE MACRO share_vgpu_ppm(memory_mib, physical_memory_mib, cores_percent) AS
  CASE
    WHEN memory_mib IS NULL AND coalesce(cores_percent, 0) = 0 THEN NULL
    WHEN memory_mib IS NULL THEN CAST(cores_percent AS BIGINT) * 10000
    WHEN coalesce(physical_memory_mib, 0) <= 0 THEN NULL
    ELSE greatest(CAST(memory_mib AS BIGINT) * 1000000 // physical_memory_mib, coalesce(CAST(cores_percent AS BIGINT), 0) * 10000)
  END;

CREATE OR REPLACE MACRO share_at_least_ppm(share_ppm, cores_percent) AS
  coalesce(CAST(share_ppm AS BIGINT), CAST(cores_percent AS BIGINT) * 10000, 0);

CREATE OR REPLACE MACRO share_mig_ppm(compute_slices, compute_slices_total, memory_slices, memory_slices_total) AS
  CASE
    WHEN compute_slices IS NULL OR memory_slices IS NULL
      OR coalesce(compute_slices_total, 0) = 0 OR coalesce(memory_slices_total, 0) = 0 THEN NULL
    ELSE greatest(
      CAST(compute_slices AS BIGINT) * 1000000 // compute_slices_total,
      CAST(memory_slices AS BIGINT) * 1000000 // memory_slices_total
    )
  END;

CREATE OR REPLACE MACRO share_replica_ppm(replicas) AS
  CASE WHEN replicas > 0 THEN 1000000 // replicas END;

CREATE OR REPLACE MACRO share_consumer_ppm(share_ppm, consumers) AS
  share_ppm // greatest(1, consumers);

CREATE OR REPLACE MACRO share_floored_ppm(share_ppm, slots_count) AS
  CASE WHEN share_ppm IS NOT NULL AND slots_count > 0 THEN greatest(share_ppm, 1000000 // slots_count) ELSE share_ppm END;
