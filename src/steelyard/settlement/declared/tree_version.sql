-- The version of the tenancy tree that holds; 0 where none is declared.
SELECT coalesce(max(version), 0) AS version FROM fact.tenancy
