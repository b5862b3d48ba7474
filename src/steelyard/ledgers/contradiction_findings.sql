-- Cards of which two samples of one instant contradict each other, whichever came first: one finding per card.
WITH
told AS (
    SELECT
        cluster, device_uuid, figure, sum(instants_count) AS instants_count, min(first_at) AS first_at, max(last_at) AS last_at,
        arg_min(least, first_at) AS least, arg_min(most, first_at) AS most, arg_min(told_by, first_at) AS told_by
    FROM ledger.contradiction
    GROUP BY cluster, device_uuid, figure
),

found AS (
    SELECT
        cluster, 'samples_contradict' AS code, 'warning' AS severity, 'device ' || device_uuid AS subject,
        'two samples of one instant contradict each other, none of them is taken: '
        || string_agg(
            figure || ' '
            || CASE
                WHEN figure = 'memory_used_mib' THEN least || ' and ' || most || ' MiB'
                ELSE round(least / 1000000, 3) || ' and ' || round(most / 1000000, 3)
            END
            || ' at ' || strftime(first_at, '%Y-%m-%dT%H:%M:%SZ') || CASE WHEN instants_count > 1 THEN ', at ' || instants_count || ' instants in all' ELSE '' END,
            '; ' ORDER BY figure
        )
        || '; told by ' || arg_min(told_by, first_at) AS message,
        json_object(
            'figures', string_agg(figure, ',' ORDER BY figure), 'least', string_agg(CAST(least AS VARCHAR), ',' ORDER BY figure),
            'most', string_agg(CAST(most AS VARCHAR), ',' ORDER BY figure), 'told_by', arg_min(told_by, first_at),
            'instants_count', max(instants_count), 'first_at', CAST(min(first_at) AS VARCHAR), 'last_at', CAST(max(last_at) AS VARCHAR),
            'check', 'dcgmi dmon -e 203,252,1001,1002,1005 beside the files'
        ) AS evidence
    FROM told
    GROUP BY cluster, device_uuid
)

SELECT
    found.cluster,
    'ledger.contradiction' AS source,
    found.code || '/' || found.subject AS natural_key,
    parameter.as_of_at AS occurred_at,
    parameter.as_of_at AS observed_at,
    found.code,
    found.severity,
    found.subject,
    found.message,
    CAST(found.evidence AS VARCHAR) AS evidence,
    CAST(NULL AS VARCHAR) AS file,
    CAST(NULL AS BIGINT) AS line,
    CAST(NULL AS VARCHAR) AS excerpt
FROM found
CROSS JOIN dim.parameter AS parameter
