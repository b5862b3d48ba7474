-- The weight of a model that no declaration names.
SELECT weight_default_ppm FROM dim.parameter
