-- Requests of which a pod waits for a scheduler and asks for more than any node has, even empty: they never fit, whatever is said. One row per request, of the
-- pod that asks for most. asked_count: cards (or instances) of one pod; most_count: the most that a node could give it, of nodes_count nodes that are there and
-- could be of the model; resource, memory_mib (per card), model: what it asks for. lacking: `model` (no node is of it), `memory` (no card is that large),
-- `count`. No row: it fits some node, or it is not known, as where nodes were never listed whole. A node of which a model or memory is not known may have it.
-- A sharing layer that registers its cards (HAMi) gives one pod distinct cards; elsewhere capacity counts, which is the node's word of itself.
WITH listed AS (
  SELECT cluster, max(occurred_at) AS listed_at
  FROM fact.source_status
  WHERE kind = 'nodes' AND scope = 'cluster' AND complete AND status = 'ok'
  GROUP BY cluster
),
asking AS (
  SELECT
    m.cluster, m.demand_id, p.pod_uid, p.namespace, p.pod, p.gpu_count AS asked_count, p.requested_memory_mib AS memory_mib, p.gpu_model AS model,
    list_filter(string_split(p.resource_names, ','), lambda name: counts_accelerators(name)) AS resources,
    list_transform(string_split(lower(coalesce(p.gpu_model, '')), ','), lambda part: regexp_replace(part, '[^a-z0-9]', '', 'g')) AS wanted
  FROM dim.pod_life AS p
  JOIN dim.demand_pod AS m ON m.cluster = p.cluster AND m.pod_uid = p.pod_uid
  JOIN listed ON listed.cluster = p.cluster AND listed.listed_at >= p.created_at
  WHERE p.phase = 'Pending' AND p.node IS NULL AND p.scheduled_at IS NULL AND p.gone_by_at IS NULL AND p.deletion_at IS NULL AND p.gpu_count > 0
),
-- Of a pod that asks for two resources of cards it is not told how many of which.
single AS (
  SELECT * EXCLUDE (resources), resources[1] AS resource FROM asking WHERE len(resources) = 1
),
cards AS (
  SELECT
    cluster, node, list(coalesce(schedulable_memory_mib, memory_mib)) AS memories_mib, count(*) AS cards_count, bool_or(schedulable_memory_mib IS NOT NULL) AS is_registered,
    string_agg(DISTINCT regexp_replace(lower(coalesce(model, '?')), '[^a-z0-9?]', '', 'g'), ' ') AS models
  FROM dim.device
  WHERE node IS NOT NULL AND gone_by_at IS NULL
  GROUP BY cluster, node
),
places AS (
  SELECT
    n.cluster, n.node, n.extended_resources, coalesce(c.is_registered, FALSE) AS is_registered, c.memories_mib,
    coalesce(regexp_replace(lower(n.gpu_product), '[^a-z0-9]', '', 'g') || ' ', '') || coalesce(c.models, CASE WHEN n.gpu_product IS NULL THEN '?' ELSE '' END)
      AS models
  FROM dim.node AS n
  LEFT JOIN cards AS c ON c.cluster = n.cluster AND c.node = n.node
  WHERE n.gone_by_at IS NULL
),
offers AS (
  SELECT
    s.cluster, s.resource, s.memory_mib, s.model, p.node,
    contains(p.models, '?') OR len(list_filter(s.wanted, lambda part: contains(p.models, part))) > 0 AS is_of_model,
    CASE
      WHEN p.is_registered AND NOT contains(s.resource, 'mig-')
        THEN len(list_filter(p.memories_mib, lambda mib: coalesce(mib >= s.memory_mib, TRUE)))
      ELSE coalesce(TRY_CAST(json_extract_string(p.extended_resources, '$.capacity."' || s.resource || '"') AS BIGINT), 0)
    END AS most_count,
    CASE
      WHEN p.is_registered AND NOT contains(s.resource, 'mig-') THEN len(p.memories_mib)
      ELSE coalesce(TRY_CAST(json_extract_string(p.extended_resources, '$.capacity."' || s.resource || '"') AS BIGINT), 0)
    END AS cards_count
  FROM (SELECT DISTINCT cluster, resource, memory_mib, model, wanted FROM single WHERE NOT contains(resource, '"')) AS s
  JOIN places AS p ON p.cluster = s.cluster AND json_extract_string(p.extended_resources, '$.capacity."' || s.resource || '"') IS NOT NULL
),
most AS (
  SELECT
    cluster, resource, memory_mib, model, count(*) FILTER (WHERE is_of_model) AS nodes_count,
    coalesce(max(most_count) FILTER (WHERE is_of_model), 0) AS most_count, coalesce(max(cards_count) FILTER (WHERE is_of_model), 0) AS cards_count
  FROM offers
  GROUP BY cluster, resource, memory_mib, model
)
SELECT
  s.cluster, s.demand_id, s.pod_uid, s.namespace, s.pod, s.resource, s.asked_count, coalesce(m.most_count, 0) AS most_count,
  coalesce(m.nodes_count, 0) AS nodes_count, s.memory_mib, s.model,
  CASE
    WHEN coalesce(m.nodes_count, 0) = 0 AND s.model IS NOT NULL THEN 'model'
    WHEN m.cards_count >= s.asked_count THEN 'memory'
    ELSE 'count'
  END AS lacking
FROM single AS s
LEFT JOIN most AS m
  ON m.cluster = s.cluster AND m.resource = s.resource AND m.memory_mib IS NOT DISTINCT FROM s.memory_mib AND m.model IS NOT DISTINCT FROM s.model
WHERE s.asked_count > coalesce(m.most_count, 0) AND NOT contains(s.resource, '"')
QUALIFY row_number() OVER (PARTITION BY s.cluster, s.demand_id ORDER BY s.asked_count DESC, s.pod_uid) = 1
