"""Studies and the demo: simulations that know the truth. Only the command line imports the lab."""
