-- One row per zone, resource and stretch: what a node's topology said from one sighting of it to the next. valid_to_at NULL: the latest word.
-- All that a node's topology says at one instant replaces all it said before; a node that is gone has none any more.
-- A sighting stamped beyond the horizon is left out.
WITH told AS (
  SELECT
    *,
    row_number() OVER (PARTITION BY cluster, node, zone, resource, occurred_at ORDER BY fact_id) AS turn
  FROM fact.node_zone
  WHERE NOT coalesce(occurred_at > (SELECT horizon_at FROM dim.parameter), FALSE)
),
seen AS (
  SELECT
    cluster, node, occurred_at,
    lead(occurred_at) OVER (PARTITION BY cluster, node ORDER BY occurred_at) AS next_at
  FROM (SELECT DISTINCT cluster, node, occurred_at FROM told) AS sighting
)
SELECT
  told.cluster,
  told.node,
  told.zone,
  told.zone_type,
  told.resource,
  told.capacity_count,
  told.allocatable_count,
  told.available_count,
  told.policies,
  told.occurred_at AS valid_from_at,
  least(seen.next_at, CASE WHEN node.gone_by_at > told.occurred_at THEN node.gone_by_at END) AS valid_to_at
FROM told
JOIN seen ON seen.cluster = told.cluster AND seen.node = told.node AND seen.occurred_at = told.occurred_at
LEFT JOIN dim.node AS node ON node.cluster = told.cluster AND node.node = told.node
WHERE told.turn = 1
