-- Cards that one pod may have wholly and another beside it: by what their node says of its plugin (time-slicing, MPS, replicas), by the
-- card's own mode and slots, or by a unit of it that is one of several replicas.
SELECT DISTINCT card.cluster, card.device_uuid
FROM dim.device AS card
LEFT JOIN dim.node AS node ON node.cluster = card.cluster AND node.node = card.node
LEFT JOIN dim.unit AS unit ON unit.cluster = card.cluster AND unit.device_uuid = card.device_uuid
WHERE node.replicas > 1 OR coalesce(node.sharing_strategy, 'none') <> 'none' OR card.slots_count > 1 OR coalesce(card.mode, 'whole') <> 'whole'
    OR unit.replicas > 1
