-- The places of both ledgers under one number, with the card's model and its commitment.
WITH named AS (
  SELECT DISTINCT cluster, place_kind, place_id, node, device_uuid FROM ledger.charge_key
  UNION
  SELECT DISTINCT cluster, place_kind, place_id, node, device_uuid FROM ledger.cost_key
),
priced AS (
  SELECT cluster, place_kind, place_id, node, min(model) AS model, min(commitment) AS commitment
  FROM dim.cost_place
  GROUP BY cluster, place_kind, place_id, node
)
SELECT
  CAST(row_number() OVER (ORDER BY named.cluster, named.place_kind, named.place_id, named.node, named.device_uuid) AS INTEGER) AS place_no,
  named.cluster, named.place_kind, named.place_id, named.node, named.device_uuid, priced.model, priced.commitment
FROM named
LEFT JOIN priced
  ON priced.cluster = named.cluster AND priced.place_kind = named.place_kind AND priced.place_id = named.place_id
  AND priced.node IS NOT DISTINCT FROM named.node
