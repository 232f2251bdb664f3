"""How objects show themselves: tables in a notebook, data frames, plots. Knows neither side."""
