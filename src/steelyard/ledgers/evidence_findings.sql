-- Facts that contradict each other: one card at two places at one instant or in two clusters, one pod seen as two at one instant.
WITH
moved_card AS (
    SELECT cluster, device_uuid FROM dim.device GROUP BY cluster, device_uuid HAVING count(DISTINCT node) > 1
),

found AS (
    SELECT
        cluster, 'device_on_two_nodes' AS code, 'device ' || device_uuid AS subject,
        'at one instant it was seen on two nodes: what is held of it there may be held of two cards' AS message,
        json_object('nodes', string_agg(DISTINCT node, ',' ORDER BY node), 'seen_at', CAST(max(occurred_at) AS VARCHAR)) AS evidence
    FROM (
        SELECT sighting.cluster, sighting.device_uuid, sighting.node, sighting.occurred_at, other.node AS other_node
        FROM dim.device_sighting AS sighting
        JOIN moved_card ON moved_card.cluster = sighting.cluster AND moved_card.device_uuid = sighting.device_uuid
        JOIN dim.device_sighting AS other
            ON other.cluster = sighting.cluster AND other.device_uuid = sighting.device_uuid
            AND other.occurred_at = sighting.occurred_at AND other.node <> sighting.node
    ) AS pair
    GROUP BY cluster, device_uuid
    UNION ALL
    SELECT
        card.cluster, 'device_in_two_clusters', 'device ' || card.device_uuid,
        'more than one cluster counts it: it stands in the books of each',
        json_object('clusters', claimed.clusters)
    FROM (SELECT DISTINCT cluster, device_uuid FROM dim.device WHERE valid_to_at IS NULL) AS card
    JOIN (
        SELECT device_uuid, string_agg(DISTINCT cluster, ',' ORDER BY cluster) AS clusters
        FROM dim.device
        WHERE valid_to_at IS NULL
        GROUP BY device_uuid
        HAVING count(DISTINCT cluster) > 1
    ) AS claimed ON claimed.device_uuid = card.device_uuid
    UNION ALL
    SELECT
        cluster, 'pod_seen_twice', 'pod ' || min(namespace) || '/' || min(pod),
        'one listing or two of one instant tell different things of it: one of them counts',
        json_object('pod_uid', pod_uid, 'seen_at', CAST(max(occurred_at) AS VARCHAR))
    FROM (
        SELECT cluster, source, pod_uid, occurred_at, min(namespace) AS namespace, min(pod) AS pod
        FROM fact.request
        GROUP BY cluster, source, pod_uid, occurred_at
        HAVING count(DISTINCT fact_id) > 1
    ) AS doubled
    GROUP BY cluster, pod_uid
)

SELECT
    found.cluster,
    'ledger.evidence' AS source,
    found.code || '/' || found.subject AS natural_key,
    parameter.as_of_at AS occurred_at,
    parameter.as_of_at AS observed_at,
    found.code,
    'warning' AS severity,
    found.subject,
    found.message,
    CAST(found.evidence AS VARCHAR) AS evidence,
    CAST(NULL AS VARCHAR) AS file,
    CAST(NULL AS BIGINT) AS line,
    CAST(NULL AS VARCHAR) AS excerpt
FROM found
CROSS JOIN dim.parameter AS parameter
