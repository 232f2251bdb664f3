#!/bin/sh
# The tests of a shipped log need a nats-server: take the one that is there, else install Debian's.
found() { command -v nats-server > /dev/null 2>&1; }
if found; then exit 0; fi
if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null 2>&1; then
    apt-get update -qq > /dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq nats-server > /dev/null
fi
found || echo "no nats-server found: install it, or the tests of a shipped log will fail" >&2
exit 0
