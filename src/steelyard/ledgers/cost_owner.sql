-- Whose each quota is: of a namespace by the tenant rules; of a queue the one tenant of the pods and namespaces that submit to it, else the queue's own name.
WITH
asked AS (
    SELECT DISTINCT cluster, queue_kind, queue, namespace FROM dim.quota_key WHERE queue_kind IN ('cluster_queue', 'volcano_queue', 'resource_quota', 'tenant')
),

submitting AS (
    SELECT cluster, parent AS queue, namespace, CAST(NULL AS VARCHAR) AS tenant
    FROM fact.queue
    WHERE queue_kind = 'local_queue' AND parent IS NOT NULL
    UNION
    SELECT cluster, queue, namespace, NULL FROM asked WHERE namespace IS NOT NULL
    UNION
    SELECT cluster, queue, NULL, tenant FROM dim.pod WHERE queue IS NOT NULL
),

ruled AS (
    SELECT namespace, min_by(coalesce(tenant, value), position) AS tenant
    FROM (
        SELECT
            named.namespace, rule.position, rule.tenant, rule.like_pattern,
            tenant_rule_value(rule.attribute, rule.key, named.namespace, '{}', '{}', NULL, NULL) AS value
        FROM (SELECT DISTINCT namespace FROM submitting WHERE namespace IS NOT NULL) AS named
        CROSS JOIN dim.tenant_rule AS rule
    ) AS laid
    WHERE tenant_rule_matches(value, like_pattern)
    GROUP BY namespace
),

whose AS (
    SELECT submitting.cluster, submitting.queue, submitting.namespace, coalesce(submitting.tenant, ruled.tenant, 'unmapped') AS tenant
    FROM submitting
    LEFT JOIN ruled ON ruled.namespace = submitting.namespace
)

SELECT
    asked.cluster, asked.queue_kind, asked.queue, asked.namespace,
    CASE
        WHEN asked.queue_kind <> 'tenant' AND count(DISTINCT whose.tenant) = 1 THEN min(whose.tenant)
        ELSE coalesce(asked.queue, asked.namespace)
    END AS owner
FROM asked
LEFT JOIN whose
    ON whose.cluster = asked.cluster AND whose.queue IS NOT DISTINCT FROM asked.queue
    AND (asked.namespace IS NULL OR whose.namespace = asked.namespace)
GROUP BY asked.cluster, asked.queue_kind, asked.queue, asked.namespace
