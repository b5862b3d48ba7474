-- Plain listings, a page at a time after a key, and how the books stand.

-- name: findings
SELECT
    rank, id, cluster, source, code, severity, subject, message, file, line, excerpt, evidence,
    epoch_us(occurred_at) AS occurred_us
FROM (
    SELECT
        CASE severity WHEN 'error' THEN 0 WHEN 'warning' THEN 1 ELSE 2 END AS rank,
        md5(
            concat_ws(
                chr(31), cluster, source, natural_key, severity, message, evidence,
                CAST(epoch_us(occurred_at) AS VARCHAR), coalesce(file, ''), coalesce(CAST(line AS VARCHAR), '')
            )
        ) AS id,
        *
    FROM (
        SELECT cluster, source, natural_key, occurred_at, code, severity, subject, message, evidence, file, line, excerpt
        FROM fact.finding
        UNION
        SELECT cluster, source, natural_key, occurred_at, code, severity, subject, message, evidence, file, line, excerpt
        FROM ledger.finding
    ) AS both_kinds
) AS keyed
WHERE $first
    OR rank > $rank
    OR (rank = $rank AND (code > $code OR (code = $code AND (subject > $subject OR (subject = $subject AND id > $id)))))
ORDER BY rank, code, subject, id
LIMIT $rows_max;

-- name: devices
SELECT
    cluster, device_uuid, coalesce(node, '') AS node_key, node, vendor, model, memory_mib, mode, healthy, cordoned,
    placeable, state, state_reason, serial, pci_address, device_index, numa, slots_count, driver_version, mig_enabled, basis,
    epoch_us(first_seen_at) AS first_seen_us, epoch_us(last_seen_at) AS last_seen_us, epoch_us(valid_to_at) AS valid_to_us
FROM dim.device
WHERE $first
    OR cluster > $cluster
    OR (
        cluster = $cluster
        AND (device_uuid > $device_uuid OR (device_uuid = $device_uuid AND coalesce(node, '') > $node))
    )
ORDER BY cluster, device_uuid, node_key
LIMIT $rows_max;

-- name: last_posting
SELECT run_id, epoch_us(posted_at) AS posted_us, epoch_us(as_of) AS as_of_us
FROM ledger.posting_run
ORDER BY run_id DESC
LIMIT 1;

-- name: observed
SELECT
    CAST(sum(CASE account WHEN 'supply' THEN amount_gpu_us ELSE 0 END) AS DECIMAL(38, 0)) AS supply_gpu_us,
    CAST(sum(CASE account WHEN 'unobserved' THEN amount_gpu_us ELSE 0 END) AS DECIMAL(38, 0)) AS unobserved_gpu_us
FROM ledger.supply
WHERE grain_at > (SELECT max(grain_at) FROM ledger.supply) - INTERVAL 1 DAY;

-- name: agents
SELECT count(*) AS known, count(*) FILTER (WHERE last_at < make_timestamp($silent)) AS silent
FROM (
    SELECT max(observed_at) AS last_at
    FROM fact.source_status
    WHERE source = 'agent' AND scope LIKE 'node/%' AND status <> 'failed' AND occurred_at >= make_timestamp($known)
    GROUP BY cluster, scope
) AS heard;
