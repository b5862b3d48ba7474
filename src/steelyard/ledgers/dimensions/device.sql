-- One row per card and node. What the card is comes from the strongest source, what the sharing layer offers from its register.
-- placeable: FALSE where anything speaks against it, NULL where the node's readiness is not known. A lost card is not healthy.
-- valid_to_at: the last sighting, where the card was later seen on another node, another card took its slot, or it is gone; else NULL.
-- gone_by_at: the first later listing without it, of all nodes (its node is gone) or of the cards of its node by a source that had named it.
-- A card that is known to be lost is still on its node; a listing that does not name it is what is expected.
-- min_by passes over rows in which the value is not known.
WITH sightings AS (
  SELECT
    f.*, s.node AS at_node,
    row_number() OVER (
      PARTITION BY f.cluster, f.device_uuid, s.node ORDER BY f.occurred_at DESC, f.fact_id
    ) AS age
  FROM fact.device AS f
  JOIN dim.device_sighting AS s ON s.fact_id = f.fact_id
),
merged AS (
  SELECT
    cluster, device_uuid, at_node AS node,
    min_by(vendor, age) AS vendor,
    coalesce(
      min_by(model, age) FILTER (WHERE basis = 'inventory'),
      min_by(model, age)
    ) AS model,
    coalesce(
      min_by(memory_mib, age) FILTER (WHERE memory_mib BETWEEN 1 AND 100000000 AND basis = 'inventory'),
      min_by(memory_mib, age) FILTER (WHERE memory_mib BETWEEN 1 AND 100000000)
    ) AS memory_mib,
    -- A driver that says MIG is off names no mode: what was said of MIG before is over.
    CASE
      WHEN min_by(mode, age) = 'mig' AND min(age) FILTER (WHERE NOT mig_enabled) < min(age) FILTER (WHERE mode = 'mig') THEN NULL
      ELSE min_by(mode, age)
    END AS mode,
    min_by(healthy, age) AS healthy,
    coalesce(
      min_by(cordoned, age) FILTER (WHERE basis = 'vendor_register'), min_by(cordoned, age)
    ) AS cordoned,
    coalesce(min_by(state, age) FILTER (WHERE basis = 'inventory'), min_by(state, age)) AS seen_state,
    coalesce(min_by(state_reason, age) FILTER (WHERE basis = 'inventory'), min_by(state_reason, age)) AS seen_state_reason,
    -- What the kubelet still offers is no proof that the card is well: its list goes on after a loss.
    max(occurred_at) FILTER (WHERE state = 'present' AND (basis = 'inventory' OR healthy) AND source <> 'pod_resources') AS present_at,
    max(occurred_at) FILTER (WHERE state = 'lost') AS lost_seen_at,
    min_by(serial, age) AS serial,
    min_by(pci_address, age) AS pci_address,
    min_by(device_index, age) AS device_index,
    min_by(numa, age) AS numa,
    min_by(slots_count, age) AS slots_count,
    min_by(schedulable_memory_mib, age) FILTER (WHERE schedulable_memory_mib BETWEEN 1 AND 100000000) AS schedulable_memory_mib,
    min_by(schedulable_cores_percent, age) AS schedulable_cores_percent,
    min_by(driver_version, age) AS driver_version,
    min_by(mig_enabled, age) AS mig_enabled,
    CASE WHEN max(CASE WHEN basis = 'inventory' THEN 1 ELSE 0 END) = 1 THEN 'inventory' ELSE max(basis) END AS basis,
    max(CASE WHEN basis = 'vendor_register' AND vendor = 'nvidia' THEN 1 ELSE 0 END) = 1 AS vendor_registered,
    min(occurred_at) AS first_seen_at,
    max(occurred_at) AS last_seen_at
  FROM sightings
  GROUP BY cluster, device_uuid, at_node
),
fallen AS (
  SELECT m.cluster, m.device_uuid, m.node, max(e.occurred_at) AS fallen_at
  FROM merged AS m
  JOIN fact.event AS e
    ON e.cluster = m.cluster
    AND (e.kind = 'fell_off_bus' OR (e.kind = 'xid' AND e.code = 79))
    AND (e.device_uuid = m.device_uuid OR (e.device_uuid IS NULL AND e.node = m.node AND e.pci_address = m.pci_address))
  WHERE e.occurred_at > coalesce(m.present_at, m.first_seen_at) OR m.present_at IS NULL
  GROUP BY m.cluster, m.device_uuid, m.node
),
latest_home AS (
  SELECT cluster, device_uuid, max(last_seen_at) AS last_seen_at
  FROM merged
  GROUP BY cluster, device_uuid
),
-- Instants at which a source named all cards of a node: a register is whole, other listings say so.
whole_round AS (
  SELECT cluster, source, node, occurred_at AS listed_at
  FROM dim.device_sighting
  WHERE basis = 'vendor_register'
  UNION
  SELECT status.cluster, status.source, substr(status.scope, 6), status.occurred_at
  FROM fact.source_status AS status
  JOIN dim.device_sighting AS card
    ON card.cluster = status.cluster AND card.source = status.source AND card.node = substr(status.scope, 6)
    AND card.occurred_at = status.occurred_at
  WHERE status.complete AND status.status = 'ok' AND status.scope LIKE 'node/%' AND card.basis = 'inventory'
    AND status.kind IN ('nvidia_smi', 'nvml', 'pod_resources')
),
newest_round AS (
  SELECT cluster, source, node, max(listed_at) AS listed_at FROM whole_round GROUP BY cluster, source, node
),
missed AS (
  SELECT card.cluster, card.device_uuid, card.node, min(whole_round.listed_at) AS gone_by_at
  FROM (
    SELECT DISTINCT sighting.cluster, sighting.device_uuid, sighting.node, sighting.source, merged.last_seen_at
    FROM dim.device_sighting AS sighting
    JOIN merged
      ON merged.cluster = sighting.cluster AND merged.device_uuid = sighting.device_uuid AND merged.node = sighting.node
    JOIN newest_round
      ON newest_round.cluster = sighting.cluster AND newest_round.source = sighting.source
      AND newest_round.node = sighting.node AND newest_round.listed_at > merged.last_seen_at
  ) AS card
  JOIN whole_round
    ON whole_round.cluster = card.cluster AND whole_round.source = card.source AND whole_round.node = card.node
    AND whole_round.listed_at > card.last_seen_at
  GROUP BY card.cluster, card.device_uuid, card.node
),
replaced AS (
  SELECT s.cluster, s.device_uuid, s.node, max(CASE WHEN s.valid_to_at IS NULL THEN 1 ELSE 0 END) AS still_seated
  FROM dim.slot AS s
  GROUP BY s.cluster, s.device_uuid, s.node
),
judged AS (
  SELECT
    m.*,
    CASE WHEN m.seen_state = 'lost' OR f.fallen_at IS NOT NULL THEN 'lost' ELSE m.seen_state END AS state,
    CASE
      WHEN m.seen_state <> 'lost' AND f.fallen_at IS NOT NULL THEN 'fell off the bus'
      ELSE m.seen_state_reason
    END AS state_reason,
    CASE
      WHEN m.seen_state = 'lost' OR f.fallen_at IS NOT NULL THEN coalesce(f.fallen_at, m.lost_seen_at)
    END AS lost_at,
    CASE
      WHEN h.last_seen_at > m.last_seen_at OR r.still_seated = 0 THEN TRUE
      ELSE FALSE
    END AS succeeded,
    CASE WHEN n.gone_by_at > m.last_seen_at THEN n.gone_by_at END AS node_gone_by_at,
    CASE WHEN m.seen_state <> 'lost' AND f.fallen_at IS NULL THEN c.gone_by_at END AS card_gone_by_at
  FROM merged AS m
  LEFT JOIN fallen AS f
    ON f.cluster = m.cluster AND f.device_uuid = m.device_uuid AND f.node IS NOT DISTINCT FROM m.node
  LEFT JOIN latest_home AS h ON h.cluster = m.cluster AND h.device_uuid = m.device_uuid
  LEFT JOIN dim.node AS n ON n.cluster = m.cluster AND n.node = m.node
  LEFT JOIN missed AS c ON c.cluster = m.cluster AND c.device_uuid = m.device_uuid AND c.node = m.node
  LEFT JOIN replaced AS r
    ON r.cluster = m.cluster AND r.device_uuid = m.device_uuid AND r.node IS NOT DISTINCT FROM m.node
),
closed AS (
  SELECT
    *,
    CASE WHEN succeeded OR node_gone_by_at IS NOT NULL OR card_gone_by_at IS NOT NULL THEN last_seen_at END AS valid_to_at,
    CASE WHEN NOT succeeded THEN least(node_gone_by_at, card_gone_by_at) END AS gone_by_at,
    CASE
      WHEN succeeded THEN NULL
      WHEN node_gone_by_at IS NOT NULL THEN 'node_vanished'
      WHEN card_gone_by_at IS NOT NULL THEN 'card_vanished'
    END AS gone_code
  FROM judged
)
SELECT
  j.cluster, j.device_uuid, j.node, j.vendor, j.model, j.memory_mib, j.mode,
  CASE WHEN j.state = 'lost' THEN FALSE ELSE j.healthy END AS healthy,
  j.cordoned,
  (
    coalesce(j.healthy, TRUE) AND NOT j.cordoned AND j.state <> 'lost' AND j.valid_to_at IS NULL
    AND n.ready AND NOT coalesce(n.unschedulable, FALSE) AND coalesce(n.handshake, '') <> 'Deleted'
  ) AS placeable,
  j.state, j.state_reason, j.lost_at, j.serial, j.pci_address, j.device_index, j.numa, j.slots_count,
  j.schedulable_memory_mib, j.schedulable_cores_percent, j.driver_version, j.mig_enabled, j.basis, j.vendor_registered,
  j.first_seen_at AS valid_from_at, j.valid_to_at, j.first_seen_at, j.last_seen_at,
  j.gone_by_at, j.gone_code
FROM closed AS j
LEFT JOIN dim.node AS n ON n.cluster = j.cluster AND n.node = j.node
