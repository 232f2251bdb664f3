#!/bin/sh
# The tests of a faked clock need libfaketime: take the one that is there, else install Debian's.
found() { [ -n "$(find /usr/lib* -path '*/faketime/libfaketimeMT.so.1' 2> /dev/null | head -n 1)" ]; }
if found; then exit 0; fi
if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null 2>&1; then
    apt-get update -qq > /dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq faketime > /dev/null
fi
found || echo "no libfaketime found: install faketime, or the tests of a faked clock will fail" >&2
exit 0
