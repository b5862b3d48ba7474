-- Every place that the supply ledger may name; its names are kept once, its rows refer to them by number.
SELECT cluster, place_kind, place_id, node, CASE WHEN place_kind = 'device' THEN place_id END AS device_uuid
FROM dim.supply_site
UNION
SELECT cluster, 'slot', node || '/' || slot, node, NULL
FROM dim.slot
