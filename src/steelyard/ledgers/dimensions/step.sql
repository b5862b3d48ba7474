-- `dim.demand_step` with the names of demands, steps and bases: a view, since names that stand in every row cost more than all else that posting does.
SELECT
  d.cluster, d.demand_id, s."at",
  CASE s.step_no
    WHEN 0 THEN 'created' WHEN 1 THEN 'evicted' WHEN 2 THEN 'released' WHEN 3 THEN 'backoff_until' WHEN 4 THEN 'ungated' WHEN 5 THEN 'reserved'
    WHEN 6 THEN 'admitted' WHEN 7 THEN 'scheduled' WHEN 8 THEN 'running' WHEN 9 THEN 'finished' ELSE 'abandoned'
  END AS step,
  CASE s.basis_no WHEN 0 THEN 'object' WHEN 1 THEN 'audit' WHEN 2 THEN 'trace' WHEN 3 THEN 'event' ELSE 'watch' END AS basis,
  s.demand_no, s.step_no, s.basis_no, s.follows_no, s.is_deactivation, s.pod_uid
FROM dim.demand_step AS s
JOIN dim.demand AS d ON d.demand_no = s.demand_no
