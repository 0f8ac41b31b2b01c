"""Scores of forecasts, protocols, and the benchmark: every model on the same windows, with significance."""
