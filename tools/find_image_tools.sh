#!/bin/sh
# The image needs tools of Debian to be built and run: take those that are there, else install them.
missing=""
for pair in mmdebstrap:mmdebstrap buildah:buildah umoci:umoci runc:runc strip:binutils; do
    PATH="$PATH:/usr/sbin" command -v "${pair%%:*}" > /dev/null 2>&1 || missing="$missing ${pair##*:}"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null 2>&1; then
    # shellcheck disable=SC2086  # one word for each package
    apt-get update -qq > /dev/null && DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends $missing > /dev/null && exit 0
fi
echo "missing for the image:$missing. On Debian: sudo apt-get install$missing" >&2
exit 1
