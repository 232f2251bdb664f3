#!/bin/sh
# The tests of units need systemd-analyze: take the one that is there, else install Debian's systemd.
if command -v systemd-analyze > /dev/null 2>&1; then exit 0; fi
if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null 2>&1; then
    apt-get update -qq > /dev/null && DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends systemd > /dev/null
fi
command -v systemd-analyze > /dev/null 2>&1 || echo "no systemd-analyze found: install systemd, or the tests of units will fail" >&2
exit 0
