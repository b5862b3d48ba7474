-- How each node is paid for: what its labels say, else the first rule of the settings that names it. A node without either has no row.
WITH labelled AS (
  SELECT
    cluster, node,
    lower(json_text(labels, 'karpenter.sh/capacity-type')) AS karpenter, lower(json_text(labels, 'eks.amazonaws.com/capacityType')) AS eks,
    lower(json_text(labels, 'cloud.google.com/gke-spot')) AS gke, lower(json_text(labels, 'cloud.google.com/gke-preemptible')) AS gke_preemptible,
    lower(json_text(labels, 'kubernetes.azure.com/scalesetpriority')) AS azure
  FROM dim.node
),
told AS (
  SELECT
    cluster, node,
    CASE
      WHEN karpenter IN ('spot', 'reserved') THEN karpenter
      WHEN karpenter = 'on-demand' THEN 'on_demand'
      WHEN eks = 'spot' THEN 'spot'
      WHEN eks = 'on_demand' THEN 'on_demand'
      WHEN eks = 'capacity_block' THEN 'reserved'
      WHEN gke = 'true' OR gke_preemptible = 'true' THEN 'spot'
      WHEN azure = 'spot' THEN 'spot'
      WHEN azure = 'regular' THEN 'on_demand'
    END AS commitment
  FROM labelled
),
ruled AS (
  SELECT told.cluster, told.node, min_by(rule.commitment, rule.position) AS commitment
  FROM told
  JOIN dim.commitment_rule AS rule ON told.node LIKE rule.like_pattern ESCAPE '!'
  WHERE told.commitment IS NULL
  GROUP BY told.cluster, told.node
)
SELECT cluster, node, commitment, 'label' AS basis FROM told WHERE commitment IS NOT NULL
UNION ALL
SELECT cluster, node, commitment, 'settings' FROM ruled
