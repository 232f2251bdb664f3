"""The console: pages for marketers and privacy engineers. It knows what reporting tells it."""
