-- Owner references that name an object of another namespace: Kubernetes knows none (its garbage collector takes such an owner for absent), so whoever wrote one
-- would join his pod to another's work. None of them is followed. Only where the owner's own namespace was seen; owners without a namespace are anyone's.
WITH
-- Only objects that somebody names as an owner matter.
named AS (
  SELECT cluster, owner_uid FROM fact.owner WHERE owner_uid IS NOT NULL
  UNION
  SELECT cluster, owner_uid FROM fact.ownership WHERE owner_uid IS NOT NULL
  UNION
  SELECT cluster, owner_uid FROM fact.gang WHERE owner_uid IS NOT NULL
),
known AS (
  SELECT step.cluster, step.object_uid, step.namespace
  FROM fact.ownership AS step
  SEMI JOIN named ON named.cluster = step.cluster AND named.owner_uid = step.object_uid
  WHERE step.namespace IS NOT NULL
  UNION
  SELECT gang.cluster, gang.object_uid, gang.namespace
  FROM fact.gang AS gang
  SEMI JOIN named ON named.cluster = gang.cluster AND named.owner_uid = gang.object_uid
  UNION
  SELECT request.cluster, request.pod_uid, request.namespace
  FROM fact.request AS request
  SEMI JOIN (SELECT DISTINCT cluster, owner_uid FROM fact.ownership WHERE owner_kind = 'Pod') AS owner
    ON owner.cluster = request.cluster AND owner.owner_uid = request.pod_uid
),
reference AS (
  SELECT owner.cluster, owner.pod_uid AS object_uid, 'Pod' AS object_kind, owner.namespace, owner.owner_uid, known.namespace AS owner_namespace
  FROM fact.owner AS owner
  JOIN known ON known.cluster = owner.cluster AND known.object_uid = owner.owner_uid AND known.namespace <> owner.namespace
  UNION
  SELECT step.cluster, step.object_uid, step.object_kind, step.namespace, step.owner_uid, known.namespace
  FROM fact.ownership AS step
  JOIN known ON known.cluster = step.cluster AND known.object_uid = step.owner_uid AND known.namespace <> step.namespace
  UNION
  SELECT gang.cluster, gang.object_uid, gang.object_kind, gang.namespace, gang.owner_uid, known.namespace
  FROM fact.gang AS gang
  JOIN known ON known.cluster = gang.cluster AND known.object_uid = gang.owner_uid AND known.namespace <> gang.namespace
)
SELECT
  reference.cluster, reference.object_uid, reference.namespace, reference.owner_uid, min(reference.object_kind) AS object_kind,
  min(reference.owner_namespace) AS owner_namespace
FROM reference
ANTI JOIN known
  ON known.cluster = reference.cluster AND known.object_uid = reference.owner_uid AND known.namespace = reference.namespace
GROUP BY reference.cluster, reference.object_uid, reference.namespace, reference.owner_uid
