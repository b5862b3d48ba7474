-- The site's asset list against the cards that were seen: cards only on paper, cards only in the racks, cards on another node than listed.
-- A card and an asset are the same by UUID, else by serial. What shares no kind of key with the other side is not judged: that is said once.
WITH
listed AS (
    SELECT
        cluster, natural_key AS asset, device_uuid, serial, node, rack, asset_owner, asset_status,
        row_number() OVER (PARTITION BY cluster, natural_key ORDER BY occurred_at DESC, fact_id) AS age
    FROM fact.inventory_basis
    WHERE basis = 'asset_list'
),

asset AS (
    SELECT
        cluster, asset, device_uuid, serial, node, rack, asset_owner, asset_status,
        coalesce(
            lower(asset_status) IN ('retired', 'scrapped', 'disposed', 'sold', 'spare', 'in stock', 'returned', '报废', '退役', '备件'), FALSE
        ) AS put_away
    FROM listed
    WHERE age = 1
),

card AS (
    SELECT
        cluster, device_uuid,
        max_by(serial, last_seen_at) FILTER (WHERE serial IS NOT NULL) AS serial,
        max_by(node, last_seen_at) FILTER (WHERE node IS NOT NULL) AS node,
        max_by(model, last_seen_at) FILTER (WHERE model IS NOT NULL) AS model
    FROM dim.device
    GROUP BY cluster, device_uuid
),

matched AS (
    SELECT asset.cluster, asset.asset, asset.node AS listed_node, card.device_uuid, card.node AS seen_node
    FROM asset
    JOIN card ON card.cluster = asset.cluster AND card.device_uuid = asset.device_uuid
    UNION
    SELECT asset.cluster, asset.asset, asset.node, card.device_uuid, card.node
    FROM asset
    JOIN card ON card.cluster = asset.cluster AND card.serial = asset.serial
),

-- An asset known by serial alone may be any card whose serial nobody told, and the other way round.
asset_keys AS (
    SELECT cluster, max(CASE WHEN device_uuid IS NULL THEN 1 ELSE 0 END) = 1 AS some_by_serial_alone
    FROM asset
    GROUP BY cluster
),

card_keys AS (
    SELECT cluster, max(CASE WHEN serial IS NULL THEN 1 ELSE 0 END) = 1 AS some_without_serial
    FROM card
    GROUP BY cluster
),

asset_only AS (
    SELECT
        asset.cluster, asset.asset, asset.device_uuid, asset.serial, asset.node, asset.rack, asset.asset_owner, asset.asset_status,
        asset.put_away, asset.device_uuid IS NOT NULL OR NOT card_keys.some_without_serial AS comparable
    FROM asset
    JOIN card_keys ON card_keys.cluster = asset.cluster
    LEFT JOIN matched ON matched.cluster = asset.cluster AND matched.asset = asset.asset
    WHERE matched.asset IS NULL
),

seen_only AS (
    SELECT
        card.cluster, card.device_uuid, card.serial, card.node, card.model,
        card.serial IS NOT NULL OR NOT asset_keys.some_by_serial_alone AS comparable
    FROM card
    JOIN asset_keys ON asset_keys.cluster = card.cluster
    LEFT JOIN matched ON matched.cluster = card.cluster AND matched.device_uuid = card.device_uuid
    WHERE matched.device_uuid IS NULL
),

found AS (
    SELECT
        cluster, 'asset_never_seen' AS code, CASE WHEN put_away THEN 'info' ELSE 'warning' END AS severity, 'asset ' || asset AS subject,
        'it stands in the asset list, and no source has seen it' AS message,
        json_object(
            'device_uuid', device_uuid, 'serial', serial, 'node', node, 'rack', rack, 'owner', asset_owner, 'status', asset_status
        ) AS evidence
    FROM asset_only
    WHERE comparable
    UNION ALL
    SELECT
        cluster, 'card_not_on_asset_list', 'warning', 'device ' || device_uuid, 'it was seen, and the asset list does not name it',
        json_object('serial', serial, 'node', node, 'model', model)
    FROM seen_only
    WHERE comparable
    UNION ALL
    SELECT
        cluster, 'asset_on_other_node', 'warning', 'asset ' || asset, 'it was seen on another node than the asset list says',
        json_object('device_uuid', device_uuid, 'listed_node', listed_node, 'seen_node', seen_node)
    FROM matched
    WHERE listed_node <> seen_node
    UNION ALL
    SELECT
        cluster, 'asset_list_not_comparable', 'info', 'asset list',
        'cards and assets that share no kind of key (UUID or serial) cannot be told apart: nothing is said about them',
        json_object('assets', sum(assets), 'devices', sum(devices))
    FROM (
        SELECT cluster, 1 AS assets, 0 AS devices FROM asset_only WHERE NOT comparable
        UNION ALL
        SELECT cluster, 0, 1 FROM seen_only WHERE NOT comparable
    ) AS untold
    GROUP BY cluster
)

SELECT
    found.cluster,
    'ledger.inventory' AS source,
    found.code || '/' || found.subject AS natural_key,
    parameter.as_of_at AS occurred_at,
    parameter.as_of_at AS observed_at,
    found.code,
    found.severity,
    found.subject,
    found.message,
    CAST(found.evidence AS VARCHAR) AS evidence,
    CAST(NULL AS VARCHAR) AS file,
    CAST(NULL AS BIGINT) AS line,
    CAST(NULL AS VARCHAR) AS excerpt
FROM found
CROSS JOIN dim.parameter AS parameter
