-- Who answers for each namespace: the settings' word, else the first of dim.contact_annotation that its latest sighting carries and that is not blank. A namespace
-- of the settings that was never seen answers in every cluster (cluster NULL).
WITH latest AS (
  SELECT cluster, namespace, annotations
  FROM fact.namespace
  QUALIFY row_number() OVER (PARTITION BY cluster, namespace ORDER BY occurred_at DESC, fact_id) = 1
),
annotated AS (
  SELECT cluster, namespace, arg_min(person, position) AS person
  FROM (
    SELECT
      latest.cluster, latest.namespace, key.position,
      nullif(trim(left(json_extract_string(latest.annotations, '/' || replace(replace(key.key, '~', '~0'), '/', '~1')), 253)), '') AS person
    FROM latest
    JOIN dim.contact_annotation AS key ON contains(latest.annotations, key.key)
  ) AS named
  WHERE person IS NOT NULL
  GROUP BY cluster, namespace
)
SELECT NULL AS cluster, namespace, person FROM dim.contact
UNION ALL
SELECT cluster, namespace, person FROM annotated WHERE namespace NOT IN (SELECT namespace FROM dim.contact)
