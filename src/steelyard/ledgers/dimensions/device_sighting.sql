-- Every sighting of a card with the node it was on (the latest known one where the source did not say) and the slot it sat in.
-- A sighting stamped beyond the horizon, or longer ago than is posted, is left out. A slot is its PCI address, else its index; two cards that claim one slot at one instant prove nothing about it.
WITH homes AS (
  SELECT cluster, device_uuid, node
  FROM (
    SELECT
      cluster, device_uuid, node,
      row_number() OVER (PARTITION BY cluster, device_uuid ORDER BY occurred_at DESC, fact_id) AS age
    FROM fact.device
    WHERE node IS NOT NULL AND occurred_at BETWEEN (SELECT history_from_at FROM dim.parameter) AND (SELECT horizon_at FROM dim.parameter)
  ) AS known
  WHERE age = 1
),
placed AS (
  SELECT d.*, coalesce(d.node, h.node) AS at_node
  FROM fact.device AS d
  LEFT JOIN homes AS h ON h.cluster = d.cluster AND h.device_uuid = d.device_uuid
  WHERE d.occurred_at BETWEEN (SELECT history_from_at FROM dim.parameter) AND (SELECT horizon_at FROM dim.parameter)
),
addressed AS (
  SELECT
    cluster, device_uuid, at_node,
    max(pci_address) AS pci_address
  FROM placed
  GROUP BY cluster, device_uuid, at_node
),
slotted AS (
  SELECT
    p.cluster, p.device_uuid, p.at_node AS node, p.occurred_at, p.source, p.basis, p.healthy, p.fact_id,
    CASE
      WHEN p.at_node IS NULL THEN NULL
      ELSE coalesce(p.pci_address, a.pci_address, 'index/' || CAST(p.device_index AS VARCHAR))
    END AS slot
  FROM placed AS p
  LEFT JOIN addressed AS a
    ON a.cluster = p.cluster AND a.device_uuid = p.device_uuid AND a.at_node IS NOT DISTINCT FROM p.at_node
),
clashes AS (
  SELECT cluster, node, slot, occurred_at
  FROM slotted
  WHERE slot IS NOT NULL
  GROUP BY cluster, node, slot, occurred_at
  HAVING count(DISTINCT device_uuid) > 1
)
SELECT
  s.cluster, s.device_uuid, s.node, s.occurred_at, s.source, s.basis, s.healthy, s.fact_id,
  CASE WHEN c.slot IS NULL THEN s.slot END AS slot
FROM slotted AS s
LEFT JOIN clashes AS c
  ON c.cluster = s.cluster AND c.node = s.node AND c.slot = s.slot AND c.occurred_at = s.occurred_at
