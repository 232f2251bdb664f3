"""The console: pages for marketers and privacy engineers. It reads only the reporting API."""
