-- Every place that the supply ledger may name, with what a price line looks at: its cluster, model, kind of unit and commitment; and whose it is, where its node is
-- dedicated. model: of its card; of a node's cards that nobody knows one by one its product, else that of its known cards where they are alike; of a slot
-- between two cards the node's. Nothing where no price is in force.
WITH
card AS (
    SELECT cluster, device_uuid, node, max(model) AS model, bool_or(coalesce(mig_enabled, FALSE)) AS mig_enabled
    FROM dim.device
    GROUP BY cluster, device_uuid, node
),

anywhere AS (
    SELECT cluster, device_uuid, max(model) AS model, bool_or(mig_enabled) AS mig_enabled FROM card GROUP BY cluster, device_uuid
),

node_card AS (
    SELECT cluster, node, max(model) AS model, bool_and(mig_enabled) AS mig_enabled
    FROM card
    GROUP BY cluster, node
    HAVING count(DISTINCT model) = 1 AND count(model) = count(*)
),

owner AS (
    SELECT node.cluster, node.node, min_by(dedicated.tenant, dedicated.position) AS tenant
    FROM (SELECT DISTINCT cluster, node FROM dim.supply_place) AS node
    JOIN dim.dedicated_node AS dedicated ON node.node LIKE dedicated.like_pattern ESCAPE '!'
    GROUP BY node.cluster, node.node
)

SELECT
    place.cluster, place.place_kind, place.place_id, place.node, place.device_uuid,
    CASE
        WHEN place.place_kind = 'device' THEN coalesce(card.model, anywhere.model, node.gpu_product)
        WHEN place.place_kind IN ('node', 'slot') THEN coalesce(node_card.model, node.gpu_product)
    END AS model,
    CASE WHEN coalesce(card.mig_enabled, anywhere.mig_enabled, node_card.mig_enabled, FALSE) THEN 'mig' ELSE 'gpu' END AS unit_kind,
    commitment.commitment, owner.tenant AS owner
FROM dim.supply_place AS place
CROSS JOIN (SELECT side FROM dim.price_line LIMIT 1) AS priced
LEFT JOIN card
    ON place.place_kind = 'device' AND card.cluster = place.cluster AND card.device_uuid = place.place_id AND card.node IS NOT DISTINCT FROM place.node
LEFT JOIN anywhere ON place.place_kind = 'device' AND anywhere.cluster = place.cluster AND anywhere.device_uuid = place.place_id
LEFT JOIN node_card ON node_card.cluster = place.cluster AND node_card.node = place.node
LEFT JOIN dim.node AS node ON node.cluster = place.cluster AND node.node = place.node
LEFT JOIN dim.node_commitment AS commitment ON commitment.cluster = place.cluster AND commitment.node = place.node
LEFT JOIN owner ON owner.cluster = place.cluster AND owner.node = place.node
