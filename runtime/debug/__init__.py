"""Looking for wrong numbers: effects, NaNs, shadow runs, checks of derivatives."""
