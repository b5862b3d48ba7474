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
