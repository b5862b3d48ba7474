-- What the engines of pods count of tokens, sample by sample: a view, since it is asked for one window at a time. value: since the engine began.
SELECT cluster, namespace, pod, natural_key, contains(metric, 'prompt') AS is_prompt, occurred_at, value
FROM fact.metric_sample
WHERE metric IN ('vllm:prompt_tokens_total', 'vllm:generation_tokens_total', 'sglang:prompt_tokens_total', 'sglang:generation_tokens_total')
  AND kind = 'counter' AND value BETWEEN 0 AND 1e15
