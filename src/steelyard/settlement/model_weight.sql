-- Declared weights of models, in the order in which they count.
SELECT model, weight_ppm, epoch_us(valid_from_at), epoch_us(valid_to_at) FROM dim.model_weight ORDER BY position
