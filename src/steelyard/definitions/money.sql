CREATE OR REPLACE MACRO unit_of_time_start_us(at_us, per) AS
  epoch_us(date_trunc(per, make_timestamp(CAST(at_us AS BIGINT))));

CREATE OR REPLACE MACRO unit_of_time_end_us(at_us, per) AS
  epoch_us(
    date_trunc(per, make_timestamp(CAST(at_us AS BIGINT)))
    + CASE per WHEN 'hour' THEN INTERVAL 1 HOUR WHEN 'day' THEN INTERVAL 1 DAY WHEN 'month' THEN INTERVAL 1 MONTH ELSE INTERVAL 1 YEAR END
  );

CREATE OR REPLACE MACRO price_run_up_micro(price_micro, from_us, at_us, to_us) AS
  CAST(CAST(price_micro AS HUGEINT) * (at_us - from_us) // (to_us - from_us) AS BIGINT);

CREATE OR REPLACE MACRO grain_price_micro(price_micro, per, grain_us_at, grain_us) AS
  price_run_up_micro(
    price_micro, unit_of_time_start_us(grain_us_at, per), grain_us_at + grain_us, unit_of_time_end_us(grain_us_at, per)
  )
  - price_run_up_micro(price_micro, unit_of_time_start_us(grain_us_at, per), grain_us_at, unit_of_time_end_us(grain_us_at, per));

CREATE OR REPLACE MACRO rest_gpu_us(price_micro, amount_gpu_us, grain_us) AS
  CASE
    WHEN price_micro <= 1000000000 AND amount_gpu_us BETWEEN 0 AND 9000000000 THEN CAST(price_micro AS BIGINT) * amount_gpu_us % grain_us
    ELSE CAST((CAST(price_micro AS HUGEINT) * amount_gpu_us % grain_us + grain_us) % grain_us AS BIGINT)
  END;

CREATE OR REPLACE MACRO part_micro(price_micro, amount_gpu_us, grain_us) AS
  CASE
    WHEN price_micro <= 1000000000 AND amount_gpu_us BETWEEN 0 AND 9000000000 THEN CAST(price_micro AS BIGINT) * amount_gpu_us // grain_us
    ELSE CAST(
      (
        CAST(price_micro AS HUGEINT) * amount_gpu_us - (CAST(price_micro AS HUGEINT) * amount_gpu_us % grain_us + grain_us) % grain_us
      ) // grain_us AS BIGINT
    )
  END;

CREATE OR REPLACE MACRO list_micro(price_micro, quantity_gpu_us, grain_us) AS
  CASE
    WHEN price_micro <= 1000000000 AND quantity_gpu_us BETWEEN 0 AND 4500000000
      THEN (CAST(price_micro AS BIGINT) * quantity_gpu_us * 2 + grain_us) // (2 * grain_us)
    ELSE CAST((CAST(price_micro AS HUGEINT) * quantity_gpu_us * 2 + grain_us) // (2 * grain_us) AS BIGINT)
  END;

CREATE OR REPLACE MACRO discount_micro(list_amount_micro, discount_ppm) AS
  CAST((CAST(list_amount_micro AS HUGEINT) * discount_ppm * 2 + 1000000) // 2000000 AS BIGINT);

CREATE OR REPLACE MACRO used_upper_gpu_us(used_gpu_us, granted_gpu_us, seen_us, held_us) AS
  CASE
    WHEN held_us <= 0 OR seen_us >= held_us THEN used_gpu_us
    ELSE used_gpu_us + granted_gpu_us - CAST(CAST(granted_gpu_us AS HUGEINT) * greatest(seen_us, 0) // held_us AS BIGINT)
  END;

CREATE OR REPLACE MACRO effective_micro(cost_micro, used_gpu_us, amount_gpu_us) AS
  CASE
    WHEN amount_gpu_us > 0
      THEN CAST((CAST(cost_micro AS HUGEINT) * used_gpu_us * 2 + amount_gpu_us) // (2 * CAST(amount_gpu_us AS HUGEINT)) AS BIGINT)
  END;

CREATE OR REPLACE MACRO model_words(model) AS
  list_distinct(regexp_extract_all(lower(substr(model, 1, 200)), '[^\s_/-]+'));

CREATE OR REPLACE MACRO price_specificity(tenant, for_cluster, words_count, unit_kind, commitment) AS
  (
    (
      (CASE WHEN tenant IS NULL THEN 0 ELSE 2 END + CASE WHEN for_cluster IS NULL THEN 0 ELSE 1 END) * 1024
      + least(words_count, 1023)
    ) * 2 + CASE WHEN unit_kind IS NULL THEN 0 ELSE 1 END
  ) * 2 + CASE WHEN commitment IS NULL THEN 0 ELSE 1 END;

CREATE OR REPLACE MACRO is_platform_cause(reason, message) AS
  coalesce(
    reason IN (
      'UnexpectedAdmissionError', 'FailedCreatePodSandBox', 'FailedMount', 'FailedAttachVolume', 'NodeNotReady', 'NetworkNotReady', 'FailedPrepareDynamicResources'
    ), FALSE
  )
  OR (
    coalesce(reason IN ('Failed', 'BackOff', 'ErrImagePull', 'ImagePullBackOff'), FALSE)
    AND coalesce(regexp_matches(lower(message), 'pull(ing)? image|imagepull|device plugin'), FALSE)
    AND NOT coalesce(regexp_matches(lower(message), 'not found|manifest unknown|invalid reference|does not exist|denied|unauthorized'), FALSE)
  )
  OR (coalesce(reason = 'Pulled', FALSE) AND coalesce(regexp_matches(message, ' in ([0-9]+h|[1-9][0-9]+m)'), FALSE));
