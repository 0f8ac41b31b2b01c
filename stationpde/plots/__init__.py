"""Pictures of runs and of the ideas behind them; matplotlib is imported when one is drawn."""
