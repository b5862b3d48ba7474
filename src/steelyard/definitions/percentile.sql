CREATE OR REPLACE MACRO percentile_linear(x, p) AS quantile_cont(CAST(x AS DOUBLE), p);

CREATE OR REPLACE MACRO percentile_nearest_rank(x, p) AS quantile_disc(x, p);
