-- `dim.demand_outcome` with the names of demands: a view, as `dim.step` is.
SELECT d.cluster, d.demand_id, o.* EXCLUDE (demand_no)
FROM dim.demand_outcome AS o
JOIN dim.demand AS d ON d.demand_no = o.demand_no
