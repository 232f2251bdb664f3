#!/bin/sh
# The tests of the Postgres engine start a server: take the one that is there, else install Debian's.
found() { [ -n "$(ls /usr/lib/postgresql/*/bin/initdb 2> /dev/null)" ] || command -v initdb > /dev/null 2>&1; }
if found; then exit 0; fi
if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null 2>&1; then
    apt-get update -qq > /dev/null
    # without a cluster of its own that would run beside the tests
    mkdir -p /etc/postgresql-common
    [ -e /etc/postgresql-common/createcluster.conf ] ||
        echo "create_main_cluster = false" > /etc/postgresql-common/createcluster.conf
    DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -qq \
        --no-install-recommends postgresql > /dev/null
fi
found || echo "no Postgres found: install postgresql, or the tests of its engine will fail" >&2
exit 0
