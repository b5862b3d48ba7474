CREATE OR REPLACE MACRO grain_start(ts, grain_us) AS
  make_timestamp(epoch_us(ts) - (epoch_us(ts) % CAST(grain_us AS BIGINT) + grain_us) % grain_us);

CREATE OR REPLACE MACRO grain_start_us(instant_us, grain_us) AS
  instant_us - (instant_us % CAST(grain_us AS BIGINT) + grain_us) % grain_us;

CREATE OR REPLACE MACRO grain_hour(ts) AS date_trunc('hour', ts);
