"""What every service needs and no side owns: web server, settings, logs, metrics, clock."""
