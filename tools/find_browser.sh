#!/bin/sh
# The browser tests need a Chromium and a Firefox: take those that are there, else install Debian's.
has() {
    for name in "$@"; do
        if command -v "$name" > /dev/null 2>&1; then return 0; fi
    done
    return 1
}
missing=
has chromium chromium-browser google-chrome || missing="chromium"
has firefox-esr firefox || missing="$missing firefox-esr"
if [ -n "$missing" ] && [ "$(id -u)" = 0 ] && has apt-get; then
    # shellcheck disable=SC2086 - names of packages
    apt-get update -qq > /dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $missing > /dev/null
fi
for name in $missing; do
    has "$name" || echo "no $name found: install one, or the browser tests will fail" >&2
done
exit 0
