CREATE OR REPLACE MACRO json_text(document, key) AS
  json_extract_string(document, '$."' || key || '"');

CREATE OR REPLACE MACRO tenant_rule_value(attribute, key, namespace, labels, annotations, workload, queue) AS
  CASE attribute
    WHEN 'namespace' THEN namespace
    WHEN 'label' THEN json_text(labels, key)
    WHEN 'annotation' THEN json_text(annotations, key)
    WHEN 'workload' THEN workload
    WHEN 'queue' THEN queue
  END;

CREATE OR REPLACE MACRO tenant_rule_matches(value, like_pattern) AS
  value IS NOT NULL AND (like_pattern IS NULL OR value LIKE like_pattern ESCAPE '!');
