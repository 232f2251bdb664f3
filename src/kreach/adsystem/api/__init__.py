"""The reporting API over HTTP: routes, who may use them, and how errors are answered."""
