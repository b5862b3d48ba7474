-- The tags of pods. Keys are found by JSON pointer, so a key may hold dots and slashes.

-- name: label
SELECT cluster, pod_uid, json_extract_string(labels, $pointer) AS value
FROM dim.pod
WHERE json_extract_string(labels, $pointer) IS NOT NULL;

-- name: annotation
SELECT cluster, pod_uid, json_extract_string(annotations, $pointer) AS value
FROM dim.pod
WHERE json_extract_string(annotations, $pointer) IS NOT NULL;

-- name: label_keys
SELECT DISTINCT unnest(json_keys(labels)) AS key
FROM dim.pod
ORDER BY key
LIMIT $listed_max;

-- name: known_cards
SELECT cluster, device_uuid, node, device_index, NULL AS unit_id FROM dim.device
UNION
SELECT cluster, device_uuid, node, NULL, unit_id FROM ledger.holding WHERE device_uuid IS NOT NULL OR unit_id IS NOT NULL
ORDER BY node, device_index, device_uuid, unit_id;

-- name: known_pods
SELECT cluster, namespace, pod, pod_uid, tenant
FROM dim.pod
ORDER BY last_seen_at DESC, namespace, pod, pod_uid;
