#!/bin/sh
# The tests of alert rules need promtool: take the one that is there, else install Debian's.
if command -v promtool > /dev/null 2>&1; then exit 0; fi
if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null 2>&1; then
    # the package starts a server; only its tool is wanted here
    apt-get update -qq > /dev/null && DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
        apt-get install -y -qq --no-install-recommends prometheus > /dev/null
fi
command -v promtool > /dev/null 2>&1 || echo "no promtool found: install prometheus, or the tests of rules will fail" >&2
exit 0
