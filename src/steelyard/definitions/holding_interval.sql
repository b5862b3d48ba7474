CREATE OR REPLACE MACRO plausible_stamp(stamp_at, seen_at) AS
  CASE
    WHEN (
      stamp_at >= TIMESTAMP '2010-01-01 00:00:00'
      OR (stamp_at >= TIMESTAMP '1970-01-01 00:00:00' AND seen_at < TIMESTAMP '2010-01-01 00:00:00')
    ) AND stamp_at <= seen_at + INTERVAL 1 DAY THEN stamp_at
  END;

CREATE OR REPLACE MACRO stamp_after_creation(created_at, stamp_at) AS
  CASE WHEN stamp_at < created_at THEN NULL ELSE stamp_at END;

CREATE OR REPLACE MACRO holding_start_at(created_at, scheduled_at, bound_at, started_at, first_container_at) AS
  coalesce(
    stamp_after_creation(created_at, scheduled_at),
    stamp_after_creation(created_at, bound_at),
    stamp_after_creation(created_at, started_at),
    stamp_after_creation(created_at, first_container_at)
  );

CREATE OR REPLACE MACRO holding_start_basis(created_at, scheduled_at, bound_at, started_at, first_container_at) AS
  CASE
    WHEN stamp_after_creation(created_at, scheduled_at) IS NOT NULL THEN 'pod_scheduled'
    WHEN stamp_after_creation(created_at, bound_at) IS NOT NULL THEN 'scheduler_bind'
    WHEN stamp_after_creation(created_at, started_at) IS NOT NULL THEN 'start_time'
    WHEN stamp_after_creation(created_at, first_container_at) IS NOT NULL THEN 'first_container'
  END;

CREATE OR REPLACE MACRO holding_end_basis(terminal, last_container_end_at, alive_seen_at, gone_by_at) AS
  CASE
    WHEN terminal AND last_container_end_at IS NOT NULL THEN 'container_finished'
    WHEN terminal AND alive_seen_at IS NOT NULL THEN 'phase_seen'
    WHEN terminal THEN NULL
    WHEN gone_by_at IS NOT NULL THEN 'vanished'
  END;

CREATE OR REPLACE MACRO holding_ended_at(terminal, last_container_end_at, alive_seen_at, last_seen_at, gone_by_at) AS
  CASE
    WHEN terminal THEN coalesce(last_container_end_at, alive_seen_at)
    WHEN gone_by_at IS NOT NULL THEN last_seen_at
  END;

CREATE OR REPLACE MACRO holding_ended_before_at(
  terminal, last_container_end_at, alive_seen_at, terminal_seen_at, last_seen_at, gone_by_at
) AS
  CASE
    WHEN terminal AND last_container_end_at IS NULL AND alive_seen_at IS NOT NULL THEN terminal_seen_at
    WHEN NOT terminal AND gone_by_at IS NOT NULL THEN greatest(last_seen_at, gone_by_at)
  END;
