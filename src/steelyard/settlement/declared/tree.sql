-- The lines of one version of the tenancy tree, in the order in which they decide.
SELECT DISTINCT
  position, "by", key, match, department, team, project, cost_centre, epoch_us(valid_from_at) AS valid_from, epoch_us(valid_to_at) AS valid_to
FROM fact.tenancy
WHERE version = $version
ORDER BY position
